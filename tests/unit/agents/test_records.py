"""The files by which agent, supervisor and job speak: strict readers, and nothing lost on the way."""

import pytest

from agents.core.records import SupervisorState, WrittenLine, encode
from agents.protocol.ports import ProcessIdentity
from agents.protocol.server_report import AttemptReport
from tests.support.agents.server import attempt_id


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"event":"dance"}',
        b'{"event":"progress","step":-1}',
        b'{"event":"progress","step":1e3}',
        b'{"event":"progress","step":true}',
        b'{"event":"checkpoint","name":"../../etc/passwd","step":1}',
        b'{"event":"checkpoint","step":1}',
        b"\xff\xfe",
        b"[" * 10_000,
    ],
)
def test_strange_line_of_a_job_is_no_report(line: bytes) -> None:
    """A job may write anything."""
    assert WrittenLine.parse(line) is None


@pytest.mark.parametrize("loss", [b"NaN", b"Infinity", b"-Infinity", b"1e30", b'"low"', b"1" + b"0" * 400])
def test_loss_that_is_no_number_leaves_the_step(loss: bytes) -> None:
    """A diverged job still makes progress, and can be seen to."""
    line = WrittenLine.parse(b'{"event":"progress","step":5,"loss":' + loss + b"}")

    assert line == WrittenLine(event="progress", step=5)


@pytest.mark.parametrize(
    ("told", "taken"), [(b"0.25", 0.25), (b"1", 1.0), (b"1.5", None), (b"-1", None), (b'"x"', None)]
)
def test_share_of_a_dataset_is_one_or_nothing(told: bytes, taken: float | None) -> None:
    """What is no share leaves the step."""
    line = WrittenLine.parse(b'{"event":"progress","step":5,"cached_frac":' + told + b"}")

    assert line == WrittenLine(event="progress", step=5, cached_frac=taken)


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[]", b"\x00", b'{"report":{}}', b"[" * 50_000])
def test_strange_state_file_counts_as_absent(content: bytes | None) -> None:
    """A job may write its state file."""
    assert SupervisorState.parse(content) is None


def test_state_comes_back_from_disk_unchanged() -> None:
    """What a supervisor writes, the agent reads."""
    me = ProcessIdentity(boot_id="boot", pid=10, start_ticks=100)
    report = AttemptReport(attempt_id=attempt_id(), phase="running", pid=11, step=7, loss=0.5)
    state = SupervisorState(supervisor=me, trainer=me, report=report, dropped_log_bytes=3)

    assert SupervisorState.parse(encode(state)) == state
