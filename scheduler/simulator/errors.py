"""Errors of the simulator's own inputs."""


class BadInput(Exception):
    """An option, or a cluster file, cannot be used; the message names the field, the reason and what would be right."""
