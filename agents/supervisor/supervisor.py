"""The event loop of a supervisor: waits for events and carries out the commands of ``core/supervision.py``.

Nothing but the standard library, as ``supervise.py`` says.
"""

import contextlib
import json
import os
import select
import signal
import time
from dataclasses import replace
from functools import partial

from agents.core import supervision_events as ev
from agents.core.ending import Exit
from agents.core.records import (
    CONTROL_FILE,
    GANG_FILE,
    GRANT_FILE,
    HOME_DIR,
    REPORT_FILE,
    REQUEST_FILE,
    STATE_FILE,
    Control,
    Launch,
    WrittenLine,
    encode,
)
from agents.core.supervision import Supervision
from agents.files.attempt_dir import WRITTEN_BY_JOB, AttemptDir
from agents.files.cache_owners import cache_folder, owner_bytes, sweep_apart
from agents.files.job_log import JobLog
from agents.files.journal import journal_append
from agents.files.masking import Masker
from agents.host.cgroup import AttemptGroup, attempt_group
from agents.host.cores import pin_tree
from agents.host.disk import DiskMeter, is_full
from agents.host.identity import identity_of, is_alive
from agents.host.job_paths import confine_to
from agents.host.short_tmp import short_tmp_remove
from agents.host.tree import TreeMeter, kernel_ooms, signal_each_once, signal_tree
from agents.protocol.clock import SystemClock
from agents.protocol.gangs import membership_file
from agents.protocol.grant import Grant
from agents.protocol.ports import ProcessIdentity
from agents.protocol.shared_dir import JOB_DIR
from agents.supervisor.child import StartFailed, become_subreaper
from agents.supervisor.output import Output
from agents.supervisor.places import Places
from agents.supervisor.report_tail import ReportTail
from agents.supervisor.trainer import trainer_start
from agents.supervisor.unpacking import Unpacking
from agents.supervisor.warm_child import WarmChild

LOOK_EVERY_S = 0.1
CLEAR_EVERY_S = 0.01
MEMORY_EVERY_S = 0.25
MEASURE_EVERY_S = 1.0
DISK_BUDGET_S = 0.02
# How long a last state that finds no room on the disk is tried again.
KEEP_TRYING_S = 600.0
THREADED_NOTE = "The process started ahead of time had threads and could not be confined; the job was started anew."


class Supervisor:
    """Owner of one training process tree."""

    def __init__(
        self,
        directory: AttemptDir,
        launch: Launch,
        me: ProcessIdentity,
        *,
        warm: WarmChild | None = None,
        masker: Masker | None = None,
    ) -> None:
        self._dir = directory
        self._dir.uid = launch.uid
        self._launch = launch
        self._core = Supervision(launch=launch, supervisor=me, clock=SystemClock())
        self._warm = warm
        self._masker = masker or Masker()
        self._trainer: ProcessIdentity | None = None
        self._is_trainer_reaped = False
        self._trainer_came_first = False
        self._is_clearing = False
        self._is_finished = False
        self._is_end_asked = False
        self._is_state_due = False
        self._control_seen: tuple[int, int] | None = None
        self._tail = ReportTail(REPORT_FILE)
        self._meter = TreeMeter(me.pid)
        self._num_cpus = max(1, len(launch.order.cpu_ids))
        self._cache = cache_folder(launch.server_id, uid=launch.uid, queue_id=launch.order.queue_id)
        self._group: AttemptGroup | None = None
        self._held_bytes = 0
        self._disk = DiskMeter(WRITTEN_BY_JOB)
        self._job_disk = DiskMeter((JOB_DIR, HOME_DIR))
        self._scratch_disk = DiskMeter((launch.order.attempt_id,))
        self._places: Places | None = None
        self._ooms_before = kernel_ooms()
        self._due_s = {"memory": 0.0, "measure": 0.0, "directory": 0.0}
        self._wake, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._log = JobLog(directory.fd, most_bytes=launch.order.log_bytes)
        self._output = Output(self._log, self._masker)
        self._unpacking: Unpacking | None = None

    # What happens, in order

    def run(self) -> int:
        """Run the attempt to its end and return an exit status."""
        for number in (signal.SIGCHLD, signal.SIGURG, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, self._ask_end)
        become_subreaper()
        self._look_at_control()
        # From here on no other process can end this attempt, and no second supervisor can start it.
        if not self._dir.create(STATE_FILE, encode(self._core.state)):
            return 0
        if self._launch.order.code:
            # A process of its own: meanwhile the order may be taken back, or the lease may run out.
            self._unpacking = Unpacking(self._dir, self._launch, output_fd=self._output.write_fd)
        else:
            self._handle(ev.Begin())
        give_up_s = 0.0
        while not (self._is_finished and not self._is_state_due):
            self._wait()
            self._turn()
            if self._is_finished:
                give_up_s = give_up_s or time.monotonic() + KEEP_TRYING_S
                if time.monotonic() > give_up_s:
                    return 1
        if self._group is not None:
            self._group.remove()
        short_tmp_remove(self._launch.order.attempt_id)
        self._log.close()
        return 0

    def _ask_end(self, *_: object) -> None:
        self._is_end_asked = True

    def _wait(self) -> None:
        is_urgent = self._is_clearing or self._core.is_awaited
        every_s = CLEAR_EVERY_S if is_urgent else LOOK_EVERY_S
        ready, _, _ = select.select([self._wake, self._output.fd], [], [], every_s)
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
        self._restore_directory()
        if self._output.fd in ready:
            self._output.take()

    def _turn(self) -> None:
        """Bring in all that happened since the last turn."""
        self._reap()
        if self._is_clearing:
            return
        self._look_at_control()
        if self._is_end_asked and self._unpacking is None:
            self._is_end_asked = False
            self._handle(ev.EndAsked())
        if self._is_due("directory", LOOK_EVERY_S) and self._places is not None and self._places.job_dir.is_taken:
            self._handle(ev.DirectoryTaken())
        self._read_reports()
        if self._is_due("measure", MEASURE_EVERY_S):
            self._measure()
        if self._is_due("memory", MEMORY_EVERY_S):
            cached_bytes = owner_bytes(self._cache, self._launch.order.attempt_id)
            self._handle(ev.MemorySampled(memory_bytes=self._meter.memory_bytes(), cached_bytes=cached_bytes))
            self._hold_memory()
        self._handle(ev.Tick())
        if self._is_state_due:
            self._write_state(durable=False)

    def _is_due(self, name: str, every_s: float) -> bool:
        now_s = time.monotonic()
        if now_s < self._due_s[name] or self._trainer is None or self._is_clearing:
            return False
        self._due_s[name] = now_s + every_s
        return True

    def _look_at_control(self) -> None:
        try:
            status = os.stat(CONTROL_FILE, dir_fd=self._dir.fd, follow_symlinks=False)
        except OSError:
            return
        seen = (status.st_ino, status.st_mtime_ns)
        if seen != self._control_seen:
            self._control_seen = seen
            control = Control.parse(self._dir.read(CONTROL_FILE))
            if control is not None:
                self._handle(ev.ControlChanged(control=control))
                if self._unpacking is not None and control.wanted != "run":
                    self._unpacking.stop()

    def _reap(self) -> None:
        """Take in every child that ended; when the attempt is being cleared, kill until there is none."""
        if self._is_clearing:
            if self._group is not None:
                self._group.kill()
            signal_tree(os.getpid(), signal.SIGKILL)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                # Whatever it started is below us, so without a child there is no process of it left.
                if self._is_trainer_reaped and not self._is_clearing:
                    self._handle(ev.NoneLeft())
                if self._is_clearing:
                    self._on_cleared()
                return
            if pid == 0:
                return
            if self._unpacking is not None and pid == self._unpacking.pid:
                self._on_unpacked(self._unpacking, status)
            elif self._trainer is not None and pid == self._trainer.pid and not self._is_trainer_reaped:
                self._is_trainer_reaped = True
                code = os.waitstatus_to_exitcode(status)
                ended = Exit(code=code, signal=None) if code >= 0 else Exit(code=None, signal=-code)
                self._handle(ev.ChildExited(exit=replace(ended, came_first=self._trainer_came_first)))

    def _on_unpacked(self, unpacking: Unpacking, status: int) -> None:
        self._unpacking = None
        failure = unpacking.failure(status)
        self._handle(ev.ChildFailed(cause="launch_failed", detail=failure) if failure else ev.Begin())

    def _on_cleared(self) -> None:
        self._is_clearing = False
        sweep_apart(self._cache, confine=partial(confine_to, os.environ, str(self._cache)))
        output = self._output.take_all()
        while self._read_reports():
            pass
        self._measure()
        is_over_limit = self._group is not None and self._group.ooms() > 0
        is_kernel_oom = kernel_ooms() > self._ooms_before
        self._handle(ev.TreeGone(is_kernel_oom=is_kernel_oom, is_over_limit=is_over_limit, output=output))

    def _read_reports(self) -> bool:
        said = self._tail.unusable
        lines = self._tail.read(self._dir.fd)
        if self._tail.unusable != said:  # once: a job may write a million such lines
            shown = self._masker.masked(self._tail.unusable).decode(errors="replace")
            self._log.write(
                f"[clusterweb: a report cannot be used and is left out, as are others like it: {shown}]\n".encode()
            )
        for line in lines:
            if line.event != "checkpoint" or (self._dir.has_checkpoint(line.name) and not self._names_secret(line)):
                self._handle(ev.JobReported(line=line))
        return bool(lines)

    def _names_secret(self, line: WrittenLine) -> bool:
        name = line.name.encode()
        return self._masker.masked(name) != name

    def _measure(self) -> None:
        cores = self._meter.cpu_cores()
        granted = self._num_cpus
        self._measure_disk()
        self._handle(
            ev.UsageSampled(
                cpu_frac=None if cores is None else min(1.0, cores / granted),
                disk_bytes=sum(meter.num_bytes for meter in (self._disk, self._job_disk, self._scratch_disk)),
                is_disk_full=self._log.is_disk_full or any(is_full(fd) for fd in self._disk_fds()),
                log_bytes=self._log.num_bytes,
                dropped_log_bytes=self._log.dropped_bytes,
                num_processes=self._meter.num_processes,
                directory_bytes=None if self._places is None else self._job_disk.num_bytes,
            )
        )

    def _measure_disk(self) -> None:
        for meter, fd in zip((self._disk, self._job_disk, self._scratch_disk), self._disk_fds(), strict=False):
            meter.step(fd, budget_s=DISK_BUDGET_S)

    def _disk_fds(self) -> tuple[int, ...]:
        """Return the folders whose parts the job writes: the attempt's; once it runs also the job's and scratch."""
        places = self._places
        return (self._dir.fd,) if places is None else (self._dir.fd, places.job_dir.fd, places.scratch_fd)

    def _restore_directory(self) -> None:
        """Undo what a job can delete, before the next output is written."""
        self._log.check()
        try:
            if self._dir.restore():
                self._log.move(self._dir.fd)
                self._is_state_due = True
        except OSError:
            self._is_state_due = True

    # What is to be done

    def _handle(self, event: ev.Event) -> None:
        for command in self._core.handle(event):
            match command:
                case ev.Give():
                    self._give(command.grant)
                case ev.StartChild():
                    self._start()
                case ev.WriteRequest():
                    self._write_request(command)
                case ev.WriteMembers():
                    self._write_members(command)
                case ev.Signal():
                    self._signal(command)
                case ev.Journal():
                    if self._trainer is not None:
                        journal_append(self._launch, command.event, self._trainer)
                case ev.WriteState():
                    self._write_state(durable=command.durable)
                case ev.ClearTree():
                    self._is_clearing = True
                case ev.Finish():
                    self._is_finished = True

    def _start(self) -> None:
        grant = self._launch.control.grant
        self._group = attempt_group(self._launch.order.attempt_id)
        self._hold_memory()
        self._keep_on(self._launch.cpu_ids if grant is None else grant.cores_at_most)
        try:
            pid, self._places = trainer_start(
                self._dir,
                self._launch,
                log=self._log,
                output_fd=self._output.write_fd,
                cache=self._cache,
                warm=self._warm,
                group=self._group,
            )
        except StartFailed as error:
            self._handle(ev.ChildFailed(cause=error.cause, detail=error.detail))
            return
        except OSError as error:
            self._handle(ev.ChildFailed(cause="launch_failed", detail=f"The job could not be set up: {error}."))
            return
        self._cache = self._places.cache
        self._trainer = identity_of(pid)  # not reaped, so it is there
        if self._trainer is not None:
            is_threaded = self._warm is not None and self._warm.is_threaded
            self._handle(ev.ChildStarted(identity=self._trainer, note=THREADED_NOTE if is_threaded else ""))

    def _signal(self, command: ev.Signal) -> None:
        # Not reaped, so its pid, which is the group's id, cannot have become another group's.
        leader = self._trainer.pid if self._trainer is not None and not self._is_trainer_reaped else None
        if command.is_once:
            # It is a zombie if it has ended by itself a moment ago: what follows is no answer to the signal.
            self._trainer_came_first = self._trainer is not None and not is_alive(self._trainer)
            signal_each_once(os.getpid(), command.number, leader=leader)
            return
        if leader is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, command.number)
        signal_tree(os.getpid(), command.number)

    def _write_request(self, command: ev.WriteRequest) -> None:
        content = json.dumps({"id": command.number, "request": command.request}).encode()
        # A request that cannot be written is followed by a signal all the same.
        with contextlib.suppress(OSError):
            self._dir.write_for_job(REQUEST_FILE, content)

    def _write_members(self, command: ev.WriteMembers) -> None:
        # When there is no room for it the gang trains on as it is.
        with contextlib.suppress(OSError):
            self._dir.write_for_job(GANG_FILE, membership_file(version=command.version, members=command.members))

    def _give(self, grant: Grant) -> None:
        self._num_cpus = grant.num_cpus
        self._keep_on(grant.cores_at_most)
        if grant.cores and self._trainer is not None:
            pin_tree(os.getpid(), grant.cores, with_root=False)
        # Without the file the job goes on with what it was told before.
        with contextlib.suppress(OSError):
            self._dir.write_for_job(GRANT_FILE, grant.encode())

    def _hold_memory(self) -> None:
        """Set the kernel's memory limit too; after a grant shrank, to the old limit while the job gives memory back."""
        if self._group is not None and self._held_bytes != self._core.memory_limit_bytes:
            self._held_bytes = self._core.memory_limit_bytes
            self._group.hold(memory_bytes=self._held_bytes)

    def _keep_on(self, cores: tuple[int, ...]) -> None:
        if self._group is not None and cores:
            self._group.keep_on(cores)

    def _write_state(self, *, durable: bool) -> None:
        try:
            self._dir.restore()
            self._dir.write(STATE_FILE, encode(self._core.state), durable=durable)
            self._is_state_due = False
        except OSError:
            self._is_state_due = True
