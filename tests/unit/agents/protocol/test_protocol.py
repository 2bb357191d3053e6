"""The protocol refuses whatever is not genuine, fresh and ours, and carries what is, unchanged."""

import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.protocol.desired_state import AttemptWanted, DesiredState
from agents.protocol.fields import MOST_LOSS
from agents.protocol.server_report import AttemptReport, DeviceReport, ServerReport
from agents.protocol.signing import (
    EXPIRES_AFTER_S,
    MAX_MESSAGE_BYTES,
    Expired,
    Forged,
    Malformed,
    Misdirected,
    ProtocolError,
    Stamp,
    seal,
    unseal,
)
from tests.support.agents.server import KEY, SERVER_ID, wanted

OTHER_SERVER = "szzzzzzzzzzz"
STAMP = Stamp(epoch=1, generation=2, sequence=3)
NOW_S = 1_700_000_000.0


def sealed(body: dict[str, Any] | None = None, **changes: Any) -> str:
    """Return a genuine desired state, or one that was sealed with other arguments."""
    arguments: dict[str, Any] = {
        "key": KEY,
        "direction": "desired",
        "server": SERVER_ID,
        "stamp": STAMP,
        "now_s": NOW_S,
        "body": {"lease_ttl_s": 30.0, "acknowledged_sequence": 0, "attempts": []} if body is None else body,
    }
    return seal(**{**arguments, **changes})


def opened(message: str, *, now_s: float = NOW_S) -> Any:
    """Open a message as the agent of the server does."""
    return unseal(key=KEY, direction="desired", server=SERVER_ID, message=message, now_s=now_s)


def resigned(content: str) -> str:
    """Sign any content with the right key."""
    return json.dumps({"content": content, "mac": hmac.new(KEY, content.encode(), hashlib.sha256).hexdigest()})


def test_genuine_message_is_opened() -> None:
    """What was sealed comes out with its stamp."""
    envelope = opened(sealed())

    assert envelope.stamp == STAMP
    assert envelope.expires_at_s == NOW_S + EXPIRES_AFTER_S


def test_message_with_another_key_is_forged() -> None:
    """Only a sender with the server's key can tell it what to do."""
    with pytest.raises(Forged):
        opened(sealed(key=b"x" * 32))


def test_changed_content_is_forged() -> None:
    """Not a letter can be changed on the way."""
    outer = json.loads(sealed())
    outer["content"] = outer["content"].replace('"generation":2', '"generation":9')

    with pytest.raises(Forged):
        opened(json.dumps(outer))


def test_message_for_another_server_is_misdirected() -> None:
    """A message cannot be replayed to a server whose key happens to be the same."""
    with pytest.raises(Misdirected):
        opened(sealed(server=OTHER_SERVER))


def test_report_is_no_desired_state() -> None:
    """A message cannot be reflected."""
    with pytest.raises(Misdirected):
        opened(sealed(direction="report"))


def test_other_protocol_is_misdirected() -> None:
    """An agent of another release does not guess."""
    content = json.loads(json.loads(sealed())["content"])

    with pytest.raises(Misdirected):
        opened(resigned(json.dumps({**content, "protocol": 2})))


@pytest.mark.parametrize(("after_s", "is_fresh"), [(EXPIRES_AFTER_S, True), (EXPIRES_AFTER_S + 0.1, False)])
def test_old_message_expires(after_s: float, *, is_fresh: bool) -> None:
    """Ten minutes, and no longer."""
    if is_fresh:
        assert opened(sealed(), now_s=NOW_S + after_s)
        return
    with pytest.raises(Expired):
        opened(sealed(), now_s=NOW_S + after_s)


def test_huge_message_is_refused_before_it_is_read() -> None:
    """Size is checked first."""
    with pytest.raises(Malformed):
        opened("[" * (MAX_MESSAGE_BYTES + 1))


@pytest.mark.parametrize("length", [0, 1, 10, 100, -1])
def test_truncated_message_is_malformed(length: int) -> None:
    """Half a message is none."""
    with pytest.raises(ProtocolError):
        opened(sealed()[:length])


@pytest.mark.parametrize(
    "message",
    [
        "null",
        "[]",
        "{}",
        '{"content": 1, "mac": "x"}',
        '{"content": "x", "mac": null}',
        '{"content": "x", "mac": "\\u00e9"}',
        '{"content": "\\ud800", "mac": "x"}',
        "[" * 100_000,
        "1" * 5000,
    ],
)
def test_strange_shapes_are_refused(message: str) -> None:
    """Nothing that JSON can say gets past, and nothing but a protocol error comes out."""
    with pytest.raises(ProtocolError):
        opened(message)


@pytest.mark.parametrize(
    "content",
    [
        "null",
        "[]",
        "{}",
        '{"epoch": NaN}',
        '{"epoch":true,"generation":1,"sequence":1}',
        '{"epoch":1,"generation":-1,"sequence":1}',
        '{"epoch":1,"generation":1e400,"sequence":1}',
        '{"epoch":1,"generation":1,"sequence":1,"expires_at":NaN}',
        '{"epoch":1,"generation":1,"sequence":1,"expires_at":Infinity}',
        '{"epoch":1,"generation":1,"sequence":1,"expires_at":' + "9" * 400 + "}",
    ],
)
def test_signed_nonsense_is_refused(content: str) -> None:
    """A genuine signature does not make numbers sane."""
    with pytest.raises(ProtocolError):
        opened(resigned(content))


def body_with(**changes: Any) -> dict[str, Any]:
    """Return the body of a desired state whose one attempt has other values."""
    desired = DesiredState(lease_ttl_s=30.0, acknowledged_sequence=0, attempts=(wanted(("true",)),))
    body = desired.to_json()
    body["attempts"][0].update(changes)
    return json.loads(json.dumps(body))  # type: ignore[no-any-return]  # JSON


@pytest.mark.parametrize(
    "changes",
    [
        {"attempt_id": "../../../../etc/passwd....."},
        {"attempt_id": "01JD0000000000000000000ABC\n"},
        {"wanted": "explode"},
        {"grace_s": float("nan")},
        {"grace_s": float("inf")},
        {"grace_s": True},
        {"memory_bytes": 1.5},
        {"memory_bytes": -1},
        {"command": ["a\x00b"]},
        {"command": ["\ud800"]},
        {"command": "rm -rf /"},
        {"env": {"A": 1}},
        {"env": {"A\x00": "b"}},
        {"files": {"../x": "y"}},
        {"files": {".hidden": "y"}},
        {"files": {"a/b": "y"}},
        {"resume_attempt_id": "x" * 26, "resume_name": "a"},
        {"resume_attempt_id": "01JD0000000000000000000ABC", "resume_name": "../a"},
        {"gpu_indexes": [-1]},
        {"cpu_ids": list(range(5000))},
    ],
)
def test_bad_order_is_malformed(changes: dict[str, Any]) -> None:
    """One bad value refuses the whole desired state, with its key."""
    with pytest.raises(Malformed):
        DesiredState.parse(body_with(**changes))


def test_attempt_named_twice_is_malformed() -> None:
    """A desired state says one thing of an attempt."""
    body = body_with()
    body["attempts"].append(body["attempts"][0])

    with pytest.raises(Malformed):
        DesiredState.parse(body)


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
ULIDS = st.from_regex(r"[0-9A-HJKMNP-TV-Z]{26}", fullmatch=True)
COUNTS = st.integers(0, 2**62)
SMALL = st.integers(0, 2**31)
FRACS = st.none() | st.floats(0, 1)

ORDERS = st.builds(
    AttemptWanted,
    attempt_id=ULIDS,
    job_id=ULIDS,
    wanted=st.sampled_from(["run", "preempt", "suspend", "cancel"]),
    generation=COUNTS,
    gpu_indexes=st.lists(SMALL, max_size=4).map(tuple),
    gpu_uuids=st.lists(TEXT, max_size=4).map(tuple),
    cpu_ids=st.lists(SMALL, max_size=4).map(tuple),
    memory_bytes=COUNTS,
    disk_bytes=COUNTS,
    log_bytes=COUNTS,
    command=st.lists(TEXT, max_size=4).map(tuple),
    env=st.dictionaries(TEXT, TEXT, max_size=3),
    files=st.dictionaries(NAMES, TEXT, max_size=3),
    grace_s=st.floats(0, 86_400),
    max_duration_s=st.none() | st.floats(0, 1e18),
    resume_attempt_id=st.just(""),
    resume_name=st.just("") | NAMES,
)
DESIRED = st.builds(
    DesiredState,
    lease_ttl_s=st.floats(0, 86_400),
    acknowledged_sequence=COUNTS,
    attempts=st.lists(ORDERS, max_size=3, unique_by=lambda order: order.attempt_id).map(tuple),
)
REPORTS = st.builds(
    ServerReport,
    agent_version=TEXT,
    boot_id=TEXT,
    device_kind=st.sampled_from(["gpu", "cpu_slot"]),
    isolation=TEXT,
    num_cpus=st.integers(0, 100_000),
    memory_bytes=COUNTS,
    cpu_frac=FRACS,
    used_memory_bytes=st.none() | COUNTS,
    devices=st.lists(
        st.builds(
            DeviceReport,
            index=st.integers(0, 1023),
            uuid=TEXT,
            model=TEXT,
            memory_bytes=COUNTS,
            healthy=st.booleans(),
            health_reason=TEXT,
            utilization_frac=FRACS,
            temperature_c=st.none() | st.floats(-100, 1000),
        ),
        max_size=3,
        unique_by=lambda device: device.index,
    ).map(tuple),
    attempts=st.lists(
        st.builds(
            AttemptReport,
            attempt_id=ULIDS,
            phase=st.sampled_from(["starting", "running", "stopping", "frozen", "ended"]),
            pid=st.none() | SMALL,
            run_s=st.floats(0, 1e18),
            end_detail=TEXT,
            exit_code=st.none() | st.integers(-(2**31), 2**31),
            loss=st.none() | st.floats(-MOST_LOSS, MOST_LOSS),
            checkpoint_name=st.just("") | NAMES,
            cpu_frac=FRACS,
        ),
        max_size=3,
    ).map(tuple),
)


@given(desired=DESIRED, stamp=st.builds(Stamp, epoch=COUNTS, generation=COUNTS, sequence=COUNTS))
def test_desired_state_comes_back_unchanged(desired: DesiredState, stamp: Stamp) -> None:
    """Sealed, opened and parsed, a desired state is what it was."""
    envelope = opened(sealed(desired.to_json(), stamp=stamp))

    assert envelope.stamp == stamp
    assert DesiredState.parse(envelope.body) == desired


@given(report=REPORTS)
def test_report_comes_back_unchanged(report: ServerReport) -> None:
    """Sealed, opened and parsed, a report is what it was."""
    message = sealed(report.to_json(), direction="report")
    envelope = unseal(key=KEY, direction="report", server=SERVER_ID, message=message, now_s=NOW_S)

    assert ServerReport.parse(envelope.body) == report


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(changes=st.dictionaries(st.sampled_from(sorted(body_with()["attempts"][0])), JSON, max_size=3))
def test_no_value_of_any_kind_gets_past_the_reader_unnoticed(changes: dict[str, Any]) -> None:
    """A body is parsed or malformed; no other error comes out."""
    body = body_with()
    body["attempts"][0].update(changes)
    try:
        parsed = DesiredState.parse(body)
    except Malformed:
        return

    assert DesiredState.parse(json.loads(json.dumps(parsed.to_json()))) == parsed


@given(message=st.text(max_size=200) | JSON.map(json.dumps))
def test_random_text_is_a_protocol_error(message: str) -> None:
    """Whatever arrives, the receiver gets one of our errors."""
    with pytest.raises(ProtocolError):
        opened(message)
