"""What the preview of a job says that it could reach."""

from frontend.pages.jobs.submit.reach import reach_rows
from scheduler.selectors.queues.isolation import QueueIsolation


def rows(*isolations: str, demand: str = "none", names: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the rows of a job that may start on servers ``0``, ``1``, ..., which all meet the demand."""
    given = {str(number): isolation for number, isolation in enumerate(isolations)}
    return dict(reach_rows(QueueIsolation(demand=demand, num_up=3, num_open=3, given=given), names))


def test_least_of_all_servers_is_told() -> None:
    """A job may start on any of them."""
    apart, by_user, none = "user+cgroup+landlock", "user", "none+cgroup"

    assert rows(apart) == {
        "Its queue's jobs start": "on every server that takes jobs",
        "Reads": "the system, Python, its own files, and folders that an admin opened",
        "Writes": "its own folders, shared memory, and folders that an admin opened",
        "Own user": "yes, one for its queue",
    }
    assert rows(apart, by_user)["Reads"] == "all that the user of its queue may"
    assert rows(apart, none)["Reads"] == rows(apart, none)["Writes"] == "all that the user of the server's agent may"
    assert rows(apart, none)["Own user"] == "no"
    assert rows(apart, none, names=("0",)) == rows(apart)


def test_simulated_servers_have_nothing_to_tell_but_the_demand() -> None:
    """Nothing runs there; a demand is told all the same."""
    assert rows() == {}
    assert rows(demand="user") == {"Its queue's jobs start": "only where they have a user of their own"}
