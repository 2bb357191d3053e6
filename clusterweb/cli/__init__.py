"""The ``clusterweb`` command: everything a practitioner does, from a terminal.

Standard library only, and nothing of the server: this folder alone can be copied to a laptop.
"""
