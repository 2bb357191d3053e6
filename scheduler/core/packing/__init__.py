"""The row-by-row part of a round: which job gets which GPUs, cores and memory.

Uses plain lists and integers, because numpy scalars are slow in loops; the rest of the core works on whole columns.
Servers are numbered here by ascending server id.
"""
