"""The headline figures of the papers, computed again: ``make reproduce`` writes ``docs/results.md``.

One file a paper. Each has ``TITLE``, ``SOURCE`` and ``rows()``; nothing in it is tuned to the published number.
"""
