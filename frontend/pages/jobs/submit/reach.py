"""What a job could read and write on the servers that it would start on, and whether it has a user of its own there."""

from collections.abc import Collection

CONFINED = frozenset({"landlock", "landlock-files"})


def reach_rows(isolations: Collection[str]) -> list[tuple[str, str]]:
    """Return rows for the preview; of several servers the least that holds on all. Nothing where none is known.

    Args:
        isolations: ``Server.isolation`` of each server, such as ``user+landlock``.
    """
    if not isolations:
        return []
    parts = [set(isolation.split("+")) for isolation in isolations]
    has_user = all("user" in each for each in parts)
    if all(CONFINED & each for each in parts):
        reads = "the system, Python, its own files, and folders that an admin opened"
        writes = "its own folders, shared memory, and folders that an admin opened"
    else:
        user = "the user of its queue" if has_user else "the user of the server's agent"
        reads = writes = f"all that {user} may"
    return [("Reads", reads), ("Writes", writes), ("Own user", "yes, one for its queue" if has_user else "no")]
