"""Measure what agents do to real processes, and writes ``docs/runtime.md``."""
