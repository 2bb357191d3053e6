"""Secrets: kept, named, given to processes, and never read by anybody else."""
