"""Runs under faults whose jobs need Python environments. Begin with ``preparing_run.py``."""
