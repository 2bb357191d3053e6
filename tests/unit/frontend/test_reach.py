"""What the preview of a job says that it could reach."""

from frontend.pages.jobs.submit.reach import reach_rows


def test_least_of_all_servers_is_told() -> None:
    """A job may start on any of them."""
    apart, by_user, none = "user+cgroup+landlock", "user", "none+cgroup"

    assert dict(reach_rows([apart])) == {
        "Reads": "the system, Python, its own files, and folders that an admin opened",
        "Writes": "its own folders, shared memory, and folders that an admin opened",
        "Own user": "yes, one for its queue",
    }
    assert dict(reach_rows([apart, by_user]))["Reads"] == "all that the user of its queue may"
    assert dict(reach_rows([apart, none])) == {
        "Reads": "all that the user of the server's agent may",
        "Writes": "all that the user of the server's agent may",
        "Own user": "no",
    }
    assert reach_rows([]) == []
