"""What keeps the jobs of a server apart, as it reports: parts joined by ``+``, such as ``user+landlock``. Pure.

``user``: the jobs of each queue have a unix user of their own. ``landlock``, ``landlock-files``: each job opens its own
files alone; the first also keeps it from signalling others. ``cgroup``: the kernel keeps its limits.
"""

NONE = "none"
# The agent could run jobs only as root, and refuses to: the server takes no jobs.
REFUSED = "refused"
USER = "user"
CONFINED = ("landlock", "landlock-files")

# Levels that a queue may demand, from weak to strong: where its jobs start.
LEVEL_MEANING = {
    NONE: "on every server",
    "files": "where jobs of other queues cannot open their files",
    USER: "where they have a user of their own",
    "full": "where they have a user of their own and open their own files alone",
}
LEVELS = tuple(LEVEL_MEANING)


def isolation_level(isolation: str) -> int:
    """Return the place in ``LEVELS`` that a server reaches; -1 for one that takes no jobs."""
    parts = isolation.split("+")
    if REFUSED in parts:
        return -1
    is_confined = not set(CONFINED).isdisjoint(parts)
    if USER in parts:
        return 3 if is_confined else 2
    return 1 if is_confined else 0
