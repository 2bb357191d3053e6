"""The row-by-row part of a round: who sits where. Plain lists and integers, because numpy scalars are slow in loops.

Everything else of the core works on whole columns. Servers are numbered here by ascending server id.
"""
