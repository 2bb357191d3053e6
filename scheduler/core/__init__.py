"""The decision core: pure code that turns a snapshot into a plan.

Standard library and numpy only. Policies, localities and mechanisms come in as arguments.
"""
