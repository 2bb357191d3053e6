"""Where the results of chaos and soak go: each database has a file of its own."""

from pathlib import Path


def results_at(name: str, *, on_postgres: bool) -> Path:
    """Return the name of the file of one kind of run."""
    return Path(f"{name}-postgres.json" if on_postgres else f"{name}.json")
