"""Reads. What a person may see comes from here and from nowhere else."""
