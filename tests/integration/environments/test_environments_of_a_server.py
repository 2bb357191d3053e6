"""Environments that an agent builds with the real uv, from packages of the test, and jobs that start in them."""

import hashlib
import itertools
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from agents.environments import keeper
from agents.host.job_users import FIRST_UID
from agents.host.landlock import PORTS_ABI, abi
from agents.host.process import HostProcesses
from agents.protocol.environments import EnvironmentWanted, files_pack
from agents.supervisor.stop import builds_end
from tests.support.agents.server import AgentServer, marked, wait_for, wanted
from tests.support.suite.wheels import Index

QUEUE = 3
_asks = itertools.count(1)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """Packages, and an agent that is told of them as an admin would."""
    made = Index(tmp_path / "index")
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that others may pass through, unlike those that pytest makes."""
    if os.geteuid() != 0:
        pytest.skip("BUILDS AS ANOTHER USER ARE NOT TESTED: only root can give a process another user")
    path = Path(tempfile.mkdtemp(prefix="clusterweb-environments-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def server(tmp_path: Path, index: Index) -> Iterator[AgentServer]:
    """A server with its agent."""
    made = AgentServer(tmp_path)
    made.start()
    made.send()
    yield made
    made.end()


def asked(text: str, *, queue: int = QUEUE, ask: int | None = None) -> EnvironmentWanted:
    """Return the request for what ``requirements.txt`` asks."""
    return EnvironmentWanted(
        digest=hashlib.sha256(f"{queue} {text}".encode()).hexdigest(),
        ask=next(_asks) if ask is None else ask,
        queue_id=queue,
        kind="requirements",
        packed=files_pack({"requirements.txt": text}),
    )


def says(server: AgentServer, environment: EnvironmentWanted, code: str) -> str:
    """Return what a script prints that runs in the environment as ``python``."""
    order = wanted(("python", "-c", code), environment=environment.digest, queue_id=QUEUE)
    server.send(order)
    report = server.wait_phase(order, "ended")
    assert report.end_cause == "completed", (report, server.log(order))
    return server.log(order).strip()


def builds(server: AgentServer) -> list[Path]:
    """Return the environments that lie on the server."""
    return sorted(server.config.state_dir.glob("environments/*-*/order.json"))


class TestBuild:
    def test_a_job_runs_in_it_with_its_packages_and_those_of_the_server_behind(
        self, server: AgentServer, index: Index
    ) -> None:
        index.wheel("smallthing", "1.2", needs=("smallerthing>=3",))
        index.wheel("smallerthing", "3.1")
        asks = asked("smallthing\n")
        server.want(asks)
        ready = server.wait_environment(asks, "ready", "failed")
        assert (ready.state, ready.done, ready.total, ready.ask) == ("ready", 2, 2, asks.ask), ready
        assert ready.num_bytes > 0
        code = (
            "import smallthing, smallerthing, numpy, sys, os; "
            "print(smallthing.__version__, smallerthing.__version__, numpy.__version__, "
            "os.environ['VIRTUAL_ENV'] == sys.prefix)"
        )
        assert says(server, asks, code) == f"1.2 3.1 {version('numpy')} True"

    def test_what_the_server_has_at_a_version_that_fits_is_not_installed_again(
        self, server: AgentServer, index: Index
    ) -> None:
        index.wheel("numpy", version("numpy"))
        index.wheel("numpy", "99.0")
        index.wheel("smallthing", "1")
        free, pinned = asked("numpy\nsmallthing\n"), asked("numpy==99.0\n")
        server.want(free, pinned)
        assert server.wait_environment(free, "ready").total == 1
        assert server.wait_environment(pinned, "ready").total == 1
        assert says(server, free, "import numpy; print(numpy.zeros(1).sum())") == "0.0"
        assert says(server, pinned, "import numpy; print(numpy.__version__)") == "99.0"

    def test_a_lock_file_says_every_version_and_hash(self, server: AgentServer, index: Index) -> None:
        index.wheel("smallthing", "1")
        index.wheel("smallthing", "2")
        path = index.folder / "smallthing-1-py3-none-any.whl"
        lock = f"""version = 1
requires-python = ">=3.11"

[[package]]
name = "smallthing"
version = "1"
source = {{ registry = "{index.folder}" }}
wheels = [{{ path = "{path.name}", hash = "sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" }}]

[[package]]
name = "training"
version = "0"
source = {{ virtual = "." }}
dependencies = [{{ name = "smallthing" }}]

[package.metadata]
requires-dist = [{{ name = "smallthing" }}]
"""
        project = (
            '[project]\nname = "training"\nversion = "0"\nrequires-python = ">=3.11"\ndependencies = ["smallthing"]\n'
        )
        asks = replace(asked("lock"), kind="lock", packed=files_pack({"uv.lock": lock, "pyproject.toml": project}))
        server.want(asks)
        ready = server.wait_environment(asks, "ready", "failed")
        assert ready.state == "ready", ready
        assert says(server, asks, "import smallthing; print(smallthing.__version__)") == "1"

    def test_a_second_job_finds_it_and_nothing_is_built(self, server: AgentServer, index: Index) -> None:
        index.wheel("smallthing", "1")
        asks = asked("smallthing\n")
        server.want(asks)
        server.wait_environment(asks, "ready")
        made = builds(server)[0].stat()
        server.want()  # its job has ended
        wait_for("it to be kept", lambda: (one := server.environment(asks)) is not None and one.ask == 0)
        again = replace(asks, ask=next(_asks))
        server.want(again)
        wait_for("it to be there", lambda: (one := server.environment(again)) is not None and one.ask == again.ask)
        report = server.environment(again)
        assert report is not None
        assert report.state == "ready"
        assert builds(server)[0].stat().st_ino == made.st_ino

    def test_a_venv_of_the_owner_is_used_as_it_is_and_its_absence_is_told(
        self, server: AgentServer, tmp_path: Path
    ) -> None:
        folder = tmp_path / "own" / "bin"
        folder.mkdir(parents=True)
        (folder / "python").write_text("#!/bin/sh\necho own $VIRTUAL_ENV\n")
        (folder / "python").chmod(0o755)
        order = wanted(("python", "train.py"), venv=str(folder.parent))
        server.send(order)
        server.wait_phase(order, "ended")
        assert server.log(order) == f"own {folder.parent}\n"
        order = wanted(("python", "train.py"), venv="/nowhere/at/all")
        server.send(order)
        report = server.wait_phase(order, "ended")
        assert report.end_cause == "environment"
        assert "/nowhere/at/all" in report.end_detail


class TestFailure:
    def test_what_cannot_be_resolved_ends_with_the_words_of_uv(self, server: AgentServer) -> None:
        asks = asked("nosuchthing==1\n")
        server.want(asks)
        failed = server.wait_environment(asks, "failed", "ready")
        assert failed.state == "failed"
        assert "nosuchthing was not found" in failed.detail
        assert "nosuchthing" in failed.tail
        assert not failed.is_passing

    def test_an_index_that_does_not_answer_is_no_fault_of_the_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # nothing listens
            monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{closed.getsockname()[1]}/simple")
            monkeypatch.setenv("UV_HTTP_TIMEOUT", "5")
            server = AgentServer(tmp_path)
            server.start()
            server.send()
            try:
                asks = asked("smallthing\n")
                server.want(asks)
                failed = server.wait_environment(asks, "failed", "ready")
            finally:
                server.end()
        assert (failed.state, failed.is_passing) == ("failed", True), failed

    def test_what_has_no_hash_is_refused_where_others_have_one(self, server: AgentServer, index: Index) -> None:
        index.wheel("smallthing", "1", needs=("smallerthing",))
        index.wheel("smallerthing", "2")
        small, smaller = (
            f"{name}=={number} \\\n    --hash=sha256:{index.sha256(name, number)}\n"
            for name, number in (("smallthing", "1"), ("smallerthing", "2"))
        )
        wrong = f"smallthing==1 --hash=sha256:{'0' * 64}\n{smaller}"
        whole, half, other = asked(small + smaller), asked(small), asked(wrong)
        server.want(whole, half, other)

        ready = server.wait_environment(whole, "ready", "failed")
        assert (ready.state, ready.total) == ("ready", 2), ready
        refused = server.wait_environment(half, "failed", "ready")
        assert "Hash-checking is required" in refused.detail
        assert "smallerthing" in refused.detail
        assert not refused.is_passing
        assert not server.wait_environment(other, "failed").is_passing

    @pytest.mark.parametrize(
        ("does", "what"),
        [("x = b'x' * 2**28", "memory"), ("open('x', 'wb').write(b'x' * 2**28)", "disk")],
    )
    def test_a_build_that_takes_too_much_is_ended_by_its_own_fault(
        self, tmp_path: Path, index: Index, does: str, what: str
    ) -> None:
        index.built("greedything", "1", build=f"import time\n{does}\ntime.sleep(3600)")
        server = AgentServer(tmp_path)
        most = (
            {"environment_build_memory_bytes": 2**27} if what == "memory" else {"environment_build_disk_bytes": 2**27}
        )
        server.config = replace(server.config, **most)  # type: ignore[arg-type]  # numbers by name
        server.start()
        server.send()
        try:
            asks = asked("greedything\n")
            server.want(asks)
            failed = server.wait_environment(asks, "failed", "ready")
            assert f"it took more than 0.125 GiB of {what}" in failed.detail
            assert not failed.is_passing
            wait_for("its processes to end", lambda: not marked(builds(server)[0].parent.name))
        finally:
            server.end()

    def test_a_failed_build_is_tried_anew_only_when_it_is_asked_for_anew(
        self, server: AgentServer, index: Index
    ) -> None:
        asks = asked("latething\n")
        server.want(asks)
        server.wait_environment(asks, "failed")
        index.wheel("latething", "1")
        reports = len(server.mail.reports)
        server.renew()
        wait_for("two more reports", lambda: len(server.mail.reports) > reports + 2)
        assert server.wait_environment(asks, "failed", "ready").state == "failed"
        again = replace(asks, ask=next(_asks))
        server.want(again)
        assert server.wait_environment(again, "ready").ask == again.ask

    def test_a_build_that_breaks_says_so(self, server: AgentServer, index: Index) -> None:
        index.built("brokenthing", "1", build="raise RuntimeError('no compiler for sm_90')")
        asks = asked("brokenthing\n")
        server.want(asks)
        failed = server.wait_environment(asks, "failed", "ready")
        assert failed.state == "failed", failed
        assert "brokenthing" in failed.detail
        assert "no compiler for sm_90" in failed.tail

    @pytest.mark.parametrize("does", ["time.sleep(3600)", "FLOOD"])
    def test_a_build_that_takes_too_long_is_ended(self, tmp_path: Path, index: Index, does: str) -> None:
        """Also one that prints without an end, past uv, which keeps the output of builds to itself."""
        flood = "out = open(f'/proc/{os.getppid()}/fd/1', 'wb', buffering=0)\nwhile True: out.write(b'x\\n' * 30_000)"
        index.built("slowthing", "1", build=f"import os, time\n{does.replace('FLOOD', flood)}")
        server = AgentServer(tmp_path)
        server.config = replace(server.config, environment_build_s=3.0)
        server.start()
        server.send()
        try:
            asks = asked("slowthing\n")
            server.want(asks)
            failed = server.wait_environment(asks, "failed", "ready")
            assert "took longer than 0.05 min" in failed.detail
            wait_for("its processes to end", lambda: not marked(builds(server)[0].parent.name))
        finally:
            server.end()


@pytest.fixture
def gate(tmp_path: Path, index: Index) -> Path:
    """A package ``gatething`` whose build notes that it has begun and waits until this file is there."""
    path = tmp_path / "gate"
    waits = f"while not os.path.exists({str(path)!r}): time.sleep(0.05)"
    index.built("gatething", "1", build=f"import os, time\nopen({f'{path}.begun'!r}, 'a').write('x')\n{waits}")
    return path


def begun(gate: Path) -> str:
    """Return a letter for each time that the package was built."""
    path = Path(f"{gate}.begun")
    return path.read_text() if path.exists() else ""


class TestInterrupted:
    def test_it_goes_on_while_the_agent_is_away(self, server: AgentServer, gate: Path) -> None:
        asks = asked("gatething\n")
        server.want(asks)
        wait_for("the build", lambda: begun(gate))
        server.stop()
        gate.touch()
        folder = builds(server)[0].parent
        wait_for("the environment", (folder / "made.json").exists)
        server.start()
        server.want(asks)
        server.wait_environment(asks, "ready")
        assert begun(gate) == "x"

    def test_a_builder_that_is_killed_begins_anew(self, server: AgentServer, gate: Path) -> None:
        asks = asked("gatething\n")
        server.want(asks)
        wait_for("the build", lambda: begun(gate))
        folder = builds(server)[0].parent
        assert server.loop is not None
        server.loop._processes.end_all(folder.name)
        wait_for("a second build", lambda: begun(gate) == "xx")
        gate.touch()
        server.wait_environment(asks, "ready")
        assert json.loads((folder / "order.json").read_text())["starts"] == 2

    def test_a_builder_that_is_killed_every_time_fails(
        self, server: AgentServer, gate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeper, "MOST_STARTS", 1)
        asks = asked("gatething\n")
        server.want(asks)
        wait_for("the build", lambda: begun(gate))
        assert server.loop is not None
        server.loop._processes.end_all(builds(server)[0].parent.name)
        failed = server.wait_environment(asks, "failed")
        assert "killed" in failed.detail
        assert failed.is_passing

    def test_it_ends_when_the_product_is_stopped(self, server: AgentServer, gate: Path) -> None:
        asks = asked("gatething\n")
        server.want(asks)
        wait_for("the build", lambda: begun(gate))
        server.stop()
        builds_end(server.config.state_dir, HostProcesses())
        wait_for("its processes to end", lambda: not marked(builds(server)[0].parent.name))

    def test_it_ends_when_nothing_waits_for_it_any_more(self, server: AgentServer, gate: Path) -> None:
        asks = asked("gatething\n")
        server.want(asks)
        wait_for("the build", lambda: begun(gate))
        name = builds(server)[0].parent.name
        server.want()
        wait_for("its processes to end", lambda: not marked(name))
        wait_for("its files to go", lambda: not builds(server))


class TestConfined:
    def test_a_build_reads_and_ends_nothing_that_a_job_could_not(self, tmp_path: Path, index: Index) -> None:
        if not abi():
            pytest.skip("BUILDS ARE NOT CONFINED HERE: this kernel has no Landlock")
        (tmp_path / "key").write_text("the agent's key")
        closed_port = 9
        tries = f"""
import os, socket
said = []
for path in ({str(tmp_path / "key")!r}, {str(tmp_path / "state" / "agent.lock")!r}):
    try:
        said.append(open(path).read())
    except OSError as error:
        said.append(type(error).__name__)
try:
    socket.create_connection(("127.0.0.1", {closed_port}), timeout=5)
except OSError as error:
    said.append(type(error).__name__)
raise RuntimeError(said)
"""
        index.built("curiousthing", "1", build=tries)
        index.wheel("smallthing", "1")
        server = AgentServer(tmp_path)
        server.config = replace(server.config, confines=True, readable_dirs=(str(index.folder),))
        server.start()
        server.send()
        try:
            curious, small = asked("curiousthing\n"), asked("smallthing\n")
            server.want(curious, small)
            refused = "ConnectionRefusedError" if abi() < PORTS_ABI else "PermissionError"
            assert (
                f"['PermissionError', 'PermissionError', '{refused}']"
                in server.wait_environment(curious, "failed").tail
            )
            server.wait_environment(small, "ready", "failed")
            assert says(server, small, "import smallthing; print(smallthing.__version__)") == "1"
        finally:
            server.end()

    def test_it_is_built_as_the_user_of_the_queue(
        self, index: Index, monkeypatch: pytest.MonkeyPatch, open_folder: Path
    ) -> None:
        index = Index(open_folder / "index")
        monkeypatch.setenv("UV_FIND_LINKS", str(index.folder))
        index.built("whothing", "1", build="import os; raise RuntimeError(f'{os.getuid()} {os.getgroups()}')")
        index.wheel("smallthing", "1")
        before = os.umask(0o077)  # as make run has it
        server = AgentServer(open_folder)
        server.config = replace(server.config, own_user=False, confines=True, readable_dirs=(str(index.folder),))
        server.start()
        server.send()
        try:
            if server.mail.newest[1].isolation == "refused":
                pytest.skip("BUILDS AS ANOTHER USER ARE NOT TESTED: no other user can run this Python")
            who, small = asked("whothing\n"), asked("smallthing\n")
            server.want(who, small)
            assert f"RuntimeError: {FIRST_UID + QUEUE} []" in server.wait_environment(who, "failed").tail
            server.wait_environment(small, "ready", "failed")
            assert says(server, small, "import smallthing; print(smallthing.__version__)") == "1"
        finally:
            server.end()
            os.umask(before)


class TestCache:
    def test_what_was_used_longest_ago_leaves_and_what_is_in_use_stays(self, tmp_path: Path, index: Index) -> None:
        for name in ("onething", "twothing", "threething"):
            index.wheel(name, "1", code="# " + "x" * 200_000)
        server = AgentServer(tmp_path)
        server.config = replace(server.config, environment_bytes=550_000)  # two of them
        server.start()
        server.send()
        try:
            one, two, three = (asked(f"{name}\n") for name in ("onething", "twothing", "threething"))
            server.want(one)
            server.wait_environment(one, "ready")
            runs = wanted(("python", "-c", "import time; time.sleep(3600)"), environment=one.digest, queue_id=QUEUE)
            server.environments = ()
            server.send(runs)
            server.wait_phase(runs, "running")
            server.want(two)
            server.wait_environment(two, "ready")
            server.want(three)
            server.wait_environment(three, "ready")
            server.want()
            wait_for("the second to leave", lambda: server.environment(two) is None)
            assert server.environment(one) is not None
        finally:
            server.end()

    def test_a_build_waits_while_all_is_in_use(self, tmp_path: Path, index: Index) -> None:
        index.wheel("onething", "1", code="# " + "x" * 200_000)
        index.wheel("twothing", "1")
        server = AgentServer(tmp_path)
        server.config = replace(server.config, environment_bytes=100_000)
        server.start()
        server.send()
        try:
            one, two = asked("onething\n"), asked("twothing\n")
            server.want(one)
            server.wait_environment(one, "ready")
            server.want(one, two)
            assert "is full" in server.wait_environment(two, "waiting").detail
            server.want(two)
            server.wait_environment(two, "ready")
        finally:
            server.end()
