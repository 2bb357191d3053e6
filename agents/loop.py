"""The agent's main thread: takes in messages, ticks each second, polls supervisors, and survives any exception.

Blocking calls are made by ``worker_thread.py``; this thread waits for messages only.
"""

import contextlib
import fcntl
import logging
import os
import platform
import queue
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from agents.config import VERSION, AgentConfig
from agents.core import events as ev
from agents.core.agent_core import AgentCore
from agents.core.records import ENVIRONMENTS_DIR
from agents.core.reporter import ServerProfile
from agents.environments.keeper import BuildSettings, Keeper
from agents.environments.store import EnvironmentStore
from agents.environments.uv import base_packages, base_pins, settings_of, tag_of, uv_path
from agents.executor import Executor
from agents.files.job_removal import named_directories_remove, named_files_remove
from agents.files.journal import journal_rotate
from agents.files.scratch import scratch_left, scratch_remove, scratch_root
from agents.files.server_files import AttemptFiles
from agents.host.cgroup import GROUPS, groups_of_host
from agents.host.identity import boot_id
from agents.host.isolation import passage_of_jobs, trial
from agents.host.job_paths import job_paths
from agents.host.job_users import FIRST_UID
from agents.host.landlock import SIGNALS_ABI, abi
from agents.host.launch_names import ATTEMPT_MARK, CODE_PATH, SPARE, WARM
from agents.host.passage import Passage, passage_told
from agents.host.process import HostProcesses
from agents.protocol.clock import SystemClock
from agents.protocol.errors import AlreadyRunning
from agents.protocol.isolation import REFUSED
from agents.protocol.ports import ReportTransport, SpawnRequest
from agents.telemetry import Probe, find_probe
from agents.telemetry.machine import CpuLoad, used_memory_bytes
from agents.telemetry.sampler import Sampler
from agents.worker_thread import WorkerThread

log = logging.getLogger(__name__)

TICK_S = 1.0
LOOK_S = 0.2
# While an attempt starts or ends, the scheduler waits for its next phase.
LOOK_SOON_S = 0.03
INBOX_MOST = 64
LOCK_FILE = "agent.lock"
# Time in each second for removing files that ended attempts left behind, and as much for directories of jobs.
REMOVAL_S = 0.2
REMEDY = (
    "run the agent as a user of its own, or let other users run its Python and pass to its folders; "
    "JOB_USER=own has jobs run as root"
)
REMEDY_OF_GPUS = "run the agent as a user of its own, or leave JOB_USER=own out: each queue gets a user"


def take_lock(state_dir: Path) -> int:
    """Return the descriptor of this state directory's lock. Raises AlreadyRunning."""
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(state_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise AlreadyRunning(f"Another agent is running on {str(state_dir)!r}.") from None
    return descriptor


def supervisor_request(
    config: AgentConfig, attempt_id: str, *, groups: str = "", paths: Mapping[str, str] = MappingProxyType({})
) -> SpawnRequest:
    """Return how the supervisor of an attempt is started.

    Without ``site``, as it needs nothing but the standard library: that halves the time it takes to start. The
    attempt directory, where the job will write, is not on its import path. ``groups`` is where control groups are made,
    ``paths`` what jobs may use (``job_paths``) and how they get there (``passage``).
    """
    directory = config.attempts_dir / attempt_id  # spare processes have no attempt yet: the folder of all attempts
    return SpawnRequest(
        attempt_id=attempt_id,
        argv=(sys.executable, "-S", "-P", "-m", "agents.supervisor.supervise", str(directory)),
        env={
            "PYTHONPATH": CODE_PATH,
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            **({GROUPS: groups} if groups else {}),
            **paths,
        },
        cwd=str(directory),
    )


def _job_paths(config: AgentConfig) -> dict[str, str]:
    if not config.confines:
        return {}
    return job_paths(
        readable=config.readable_dirs,
        writable=config.writable_dirs,
        closed=(config.state_dir, config.shared_dir, *([config.file] if config.file else [])),
    )


def _passage(config: AgentConfig) -> Passage:
    if os.geteuid() != 0 or config.own_user:
        return {}
    opened = (*config.readable_dirs, *config.writable_dirs)
    local = (Path(scratch_root(str(config.state_dir))), environments_root(config))
    return passage_of_jobs(config.attempts_dir, interpreter=sys.executable, local=local, opened=opened)


def environments_root(config: AgentConfig) -> Path:
    """Return the folder of all Python environments of a server."""
    return config.state_dir / ENVIRONMENTS_DIR


def profile_of(
    config: AgentConfig,
    probe: Probe,
    *,
    num_devices: int,
    controllers: frozenset[str] = frozenset(),
    passage: Passage = MappingProxyType({}),
) -> ServerProfile:
    """Return the server profile for reports; the directory of the attempts must exist.

    Args:
        config: Of the agent.
        probe: Of the devices.
        num_devices: How many there are.
        controllers: Of the control groups of attempts.
        passage: What is shown to jobs of users of their own.
    """
    problem, refusal = "JOB_USER=own", ""
    if not config.own_user:
        problem = trial(config.attempts_dir, code_path=CODE_PATH, interpreter=sys.executable, passage=passage)
    if problem and os.geteuid() == 0 and not config.own_user:
        refusal = f"its agent runs as root and cannot give jobs users of their own ({problem})"
        log.error("jobs_refused", extra={"problem": refusal, "remedy": REMEDY})
    elif config.own_user and os.geteuid() == 0 and probe.device_kind == "gpu" and config.confines and abi():
        refusal = "jobs of root cannot use its GPUs: confined, they may not write what CUDA has to write in /proc"
        log.error("jobs_refused", extra={"problem": refusal, "remedy": REMEDY_OF_GPUS})
    elif problem:
        log.warning("jobs_not_isolated", extra={"problem": problem})
    return ServerProfile(
        server_id=config.server_id,
        key=config.key,
        agent_version=VERSION,
        boot_id=boot_id(),
        device_kind=probe.device_kind,
        isolation=REFUSED
        if refusal
        else _isolation(
            has_users=not problem, has_limits="memory" in controllers, landlock=abi() if config.confines else 0
        ),
        first_uid=None if problem else FIRST_UID,
        refusal=refusal,
        num_cpus=max(num_devices, len(config.cpu_ids)),
        memory_bytes=config.memory_bytes,
        cpu_ids=config.cpu_ids,
        journal_dir=str(config.state_dir),
        address=config.address,
    )


def _isolation(*, has_users: bool, has_limits: bool, landlock: int) -> str:
    confined = "" if landlock == 0 else "+landlock" if landlock >= SIGNALS_ABI else "+landlock-files"
    return ("user" if has_users else "none") + ("+cgroup" if has_limits else "") + confined


class AgentLoop:
    """The agent of one server, in a thread of its own."""

    def __init__(self, config: AgentConfig, transport: ReportTransport, *, probe: Probe | None = None) -> None:
        self._config = config
        self._lock_fd = take_lock(config.state_dir)
        journal_rotate(str(config.state_dir))
        found = probe or find_probe(config)
        self._sampler = Sampler(found)
        self._load = CpuLoad(config.cpu_ids)
        self._groups, controllers = groups_of_host()
        log.info("control_groups", extra={"path": self._groups, "controllers": sorted(controllers)})
        passage = _passage(config)
        self._job_paths = {**_job_paths(config), **passage_told(passage)}
        self._processes = HostProcesses(groups=self._groups)
        self._worker = WorkerThread()
        self._files = AttemptFiles(attempts_dir=config.attempts_dir, state_dir=config.state_dir)
        profile = profile_of(
            config, found, num_devices=self._sampler.num_devices, controllers=controllers, passage=passage
        )
        self._gives_users = profile.first_uid is not None
        keeper = self._keeper(first_uid=profile.first_uid)
        if keeper is not None:
            profile = replace(profile, python=platform.python_version(), environment_tag=keeper.tag)
        self.executor = Executor(
            core=AgentCore(profile, SystemClock()),
            server_id=config.server_id,
            transport=transport,
            processes=self._processes,
            files=self._files,
            supervisor=self._supervisor,
            later=self._later,
            environments=keeper,
        )
        self._inbox: queue.SimpleQueue[ev.Event | None] = queue.SimpleQueue()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="agent", daemon=True)

    def _keeper(self, *, first_uid: int | None) -> Keeper | None:
        """Return what keeps environments; None where there is no uv."""
        uv = uv_path()
        if not uv:
            log.warning("no_environments", extra={"problem": "there is no uv beside Python or on the path"})
            return None
        config, base = self._config, base_packages()
        settings = BuildSettings(
            uv=uv,
            python=sys.executable,
            base=base,
            variables=settings_of(os.environ),
            timeout_s=config.environment_build_s,
            memory_bytes=config.environment_build_memory_bytes,
            disk_bytes=config.environment_build_disk_bytes,
            cache_bytes=config.environment_bytes,
            first_uid=first_uid,
        )
        tag = tag_of(settings.variables, base_pins(base))
        store = EnvironmentStore(environments_root(config), tag=tag)
        return Keeper(store, settings, builders=self._processes, request=self._builder)

    def _builder(self, name: str, folder: str) -> SpawnRequest:
        return SpawnRequest(
            attempt_id=name,
            argv=(sys.executable, "-S", "-P", "-m", "agents.environments.build", folder),
            env={"PYTHONPATH": CODE_PATH, "PATH": os.defpath, "LANG": "C.UTF-8", ATTEMPT_MARK: name, **self._job_paths},
            cwd=folder,
        )

    def start(self) -> None:
        """Start the thread."""
        self._sampler.start()
        self._worker.start()
        self._thread.start()

    def receive(self, message: str) -> None:
        """Queue a desired state. When too many wait it is dropped: the scheduler sends the newest again."""
        if self._inbox.qsize() >= INBOX_MOST:
            log.warning("inbox_full")
        else:
            self._inbox.put(ev.DesiredReceived(message=message))

    def stop(self) -> None:
        """End the thread and release the lock; jobs go on training."""
        self._is_ending = True
        self._inbox.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout=10)
        self._worker.stop()
        self._sampler.stop()
        self._processes.dismiss()
        self._files.close()
        os.close(self._lock_fd)

    def _run(self) -> None:
        self._guarded(self._first)
        tick_s = time.monotonic()
        while not self._is_ending:
            now_s = time.monotonic()
            if now_s >= tick_s:
                tick_s = tick_s + TICK_S if tick_s + TICK_S > now_s else now_s + TICK_S
                self._guarded(self._tick)
            self._guarded(self.executor.look)
            look_s = LOOK_SOON_S if self.executor.core.book.is_in_transition else LOOK_S
            self._drain(min(look_s, max(0.0, tick_s - time.monotonic())))

    def _drain(self, wait_s: float) -> None:
        """Wait for an event, then handle all that are queued."""
        try:
            event = self._inbox.get(timeout=wait_s) if wait_s > 0 else self._inbox.get_nowait()
            while event is not None and not self._is_ending:
                self._guarded(partial(self.executor.dispatch, event))
                event = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _first(self) -> None:
        self._sample()
        self.executor.start()

    def _tick(self) -> None:
        with contextlib.suppress(OSError):
            os.utime(self._lock_fd)  # a health check looks how old the lock is
        self._sample()
        self.executor.dispatch(ev.Tick())
        self._remove_files()
        # Not while a job starts: it needs the cores more. An error shows at the next launch.
        if not self.executor.core.book.is_in_transition:
            self._worker.ask(partial(self._start_spares, self._spare_kind()), once="spares")

    def _start_spares(self, kind: str) -> None:
        count = max(1, self._config.warm_processes)
        with contextlib.suppress(OSError):
            self._processes.prepare(self._supervisor(""), kind=kind, count=count)

    def _remove_files(self) -> None:
        state_dir = str(self._config.state_dir)
        # Looked at here, where no attempt is taken on meanwhile.
        left = scratch_left(state_dir, self.executor.core.book.live)
        if left:
            self._worker.ask(partial(scratch_remove, state_dir, left, budget_s=REMOVAL_S), once="scratch")
        if not self.executor.core.book.is_in_transition:
            shared, live = str(self._config.shared_dir), self.executor.core.book.live_jobs
            self._worker.ask(partial(named_directories_remove, shared, spared=live, budget_s=REMOVAL_S), once="jobs")
            self._worker.ask(partial(named_files_remove, shared, spared=live, budget_s=REMOVAL_S), once="files")

    def _supervisor(self, attempt_id: str) -> SpawnRequest:
        return supervisor_request(self._config, attempt_id, groups=self._groups, paths=self._job_paths)

    def _later(self, carry_out: Callable[[], ev.Event | None], *, once: Hashable) -> None:
        def work() -> None:
            outcome = carry_out()
            if outcome is not None:
                self._inbox.put(outcome)

        self._worker.ask(work, once=once)

    def _spare_kind(self) -> str:
        """Return which spare to start; the next job is likely of the same queue, and so of the same user."""
        uid = self.executor.core.book.newest_uid
        if self._config.warm_processes == 0 or (uid is None and self._gives_users):
            return SPARE
        return WARM if uid is None else f"{WARM}{uid}"

    def _sample(self) -> None:
        self.executor.dispatch(
            ev.Sampled(
                devices=self._sampler.newest(self.executor.core.book.slot_usage()),
                cpu_frac=self._load.sample(),
                used_memory_bytes=used_memory_bytes(),
            )
        )

    def _guarded(self, call: Callable[[], None]) -> None:
        """Run one step and log any exception: the agent must outlive a defect in a step."""
        try:
            call()
        except Exception:
            log.exception("agent_step_failed")
