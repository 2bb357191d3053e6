"""Measure what agents do to real processes, and write ``docs/runtime.md``."""
