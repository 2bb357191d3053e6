"""The cache that web processes share: counts add up, values are data, and a broker that is away costs little."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.cache import cache

from clusterweb.shared_cache import SharedCache
from tests.integration.agents.test_broker import Broker


@pytest.fixture(autouse=True)
def _present() -> Iterator[None]:
    cache.clear()
    SharedCache.away_until_s = 0.0
    yield
    SharedCache.away_until_s = 0.0


@pytest.fixture
def broker(processes: None, tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    made.start()
    yield made
    made.client.close()
    made.kill()


def shared(broker: Broker) -> SharedCache:
    """Return the cache of one web process."""
    return SharedCache(f"unix://scheduler:schedulerpassword@{broker.socket}", {"KEY_PREFIX": "web"})


def test_two_processes_count_together(broker: Broker) -> None:
    """What one adds the other one sees, and it ends by itself."""
    one, other = shared(broker), shared(broker)

    assert one.add("count", 0, 60)
    assert not other.add("count", 0, 60)
    assert [one.incr("count"), other.incr("count"), one.get("count")] == [1, 2, 2]
    assert [one.count("minute", within_s=60), other.count("minute", within_s=60)] == [1, 2]
    assert 0 < int(broker.client.ttl("web:1:minute")) <= 60  # type: ignore[arg-type]  # the client is not async
    assert other.get_many(["count", "none"]) == {"count": 2}
    assert 0 < int(broker.client.ttl("web:1:count")) <= 60  # type: ignore[arg-type]  # the client is not async
    assert other.delete("count")
    assert one.get("count") is None


def test_what_others_wrote_is_not_run(broker: Broker) -> None:
    """Django's own cache would unpickle it."""
    broker.client.set("web:1:planted", b"\x80\x05]\x94\x8c\x04code\x94a.")  # a list, pickled

    with pytest.raises(UnicodeDecodeError):
        shared(broker).get("planted")


def test_nothing_empties_the_broker(broker: Broker) -> None:
    """Queues and reports lie in it, too."""
    broker.client.set("scheduler.touched", "x")
    with pytest.raises(NotImplementedError):
        shared(broker).clear()

    assert broker.client.exists("scheduler.touched")


@pytest.mark.usefixtures("connections")
def test_process_counts_alone_while_the_broker_is_away(tmp_path: Path) -> None:
    """Limits hold on, each in its process; the broker is asked again after a while, not each time."""
    away = SharedCache(f"unix://{tmp_path}/nothing.sock", {})

    assert away.add("count", 0, 60)
    assert [away.incr("count"), away.incr("count")] == [1, 2]
    assert [away.count("minute", within_s=60), away.count("minute", within_s=60)] == [1, 2]
    assert SharedCache.away_until_s > 0


def test_broker_that_is_back_counts_again(broker: Broker) -> None:
    """With what it knows; nobody is kept out by what this process counted meanwhile."""
    one = shared(broker)
    broker.kill()
    one.add("count", 7, 60)
    broker.start()
    SharedCache.away_until_s = 0.0

    assert one.add("count", 0, 60)
    assert one.get("count") == 0
