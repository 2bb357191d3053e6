"""Slow, plain answers to small clusters, written from the papers; the core must agree with them.

Nothing here is fast or uses columns, and nothing is taken from ``scheduler/core``: one object a job, one loop inside
another. A policy, locality or mechanism that is registered without an entry in the tables here fails a test.
"""
