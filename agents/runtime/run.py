"""The run of a training script: steps, boundaries between them, reports, checkpoints, resume.

Decides what happens between two mini-batches. It never trains, never starts a thread, and apart from a stop it never
ends the script: a disk error is logged and reported, and training goes on.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, SupportsFloat, TypeVar

from agents.runtime.cache.reading import cached_frac
from agents.runtime.checkpoints import State, checkpoint_adopt, checkpoint_load, checkpoint_save
from agents.runtime.environment import JobEnvironment
from agents.runtime.errors import RuntimeMisuse
from agents.runtime.granted import Granted
from agents.runtime.parking import Moved, wait_off_devices
from agents.runtime.reports import Rate, ReportFile, finite, say
from agents.runtime.requests import Request, RequestFile, StopSignal

if TYPE_CHECKING:  # it needs torch, which this library does not
    from agents.runtime.gang import Gang

EXIT_STOPPED = 75
REPORT_EVERY_S = 0.5
CACHED_EVERY_S = 5.0
PRINT_EVERY_S = 2.0
# What a rank can be told, the strongest first.
WISHES: tuple[Request, ...] = ("stop", "park", "checkpoint")

Capture = TypeVar("Capture", bound=Callable[[], Mapping[str, Any]])


class Run:
    """One run of a training script, inside Clusterweb or outside of it.

    Args:
        total_steps: Steps of the whole training, those of earlier attempts included; None = until the script breaks.
        checkpoint_every_s: Seconds between two checkpoints; None = not by time.
        checkpoint_every_steps: Steps between two checkpoints; None = not by steps.
        quiet: Print no progress outside Clusterweb.
        gang: This rank's gang; it stops, parks and changes its size at a boundary that all ranks agree on.
        environ: Where the CLUSTERWEB_ variables are read from; None = the environment of the process.
        clock: Seconds that only rise.
    """

    def __init__(
        self,
        *,
        total_steps: int | None = None,
        checkpoint_every_s: float | None = 300.0,
        checkpoint_every_steps: int | None = None,
        quiet: bool = False,
        gang: "Gang | None" = None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        job = JobEnvironment.parse(os.environ if environ is None else environ)
        self.num_gpus, self.num_cpus = job.num_gpus, job.num_cpus
        self._total_steps = total_steps
        self._gang, self._is_in_gang, self._told_version = gang, False, -1
        self._checkpoint_every_s, self._checkpoint_every_steps = checkpoint_every_s, checkpoint_every_steps
        self._prints = job.report_file is None and not quiet and (gang is None or gang.is_leader)
        self._every_s = PRINT_EVERY_S if job.report_file is None else REPORT_EVERY_S
        self._checkpoint_dir, self._resume_file = job.checkpoint_dir, job.resume_file
        self._clock = clock
        self._reports = ReportFile(job.report_file if gang is None or gang.tells else None)
        self._requests = RequestFile(job.request_file)
        self._granted = Granted(job.grant_file, self._reports, clock=clock)
        self._stop = StopSignal()
        self._capture: Callable[[], Mapping[str, Any]] | None = None
        self._captures_everywhere = False
        self._step = 0
        self._loss: SupportsFloat | None = None
        self._rate: Rate | None = None  # set when training begins
        self._reported_s = self._checkpointed_s = 0.0
        self._cached_s = -CACHED_EVERY_S
        self._cached_frac: float | None = None  # share of the datasets that is in memory
        self._saved: tuple[int, str] | None = None  # step and name; in a gang the leader alone has a name
        _use_granted_cores(job.num_cpus)

    @property
    def step(self) -> int:
        """How many steps are done, those of earlier attempts included."""
        return self._step

    @property
    def saved_step(self) -> int | None:
        """Return at which step the newest checkpoint was written that this attempt wrote or began with."""
        return None if self._saved is None else self._saved[0]

    def on_checkpoint(self, capture: Capture, *, every_rank: bool = False) -> Capture:
        """Say what goes into a checkpoint. ``capture`` is called between two steps; also usable as a decorator.

        Args:
            capture: Returns the state.
            every_rank: In a gang all ranks call it, at the same boundary; what it returns in the leader is kept.
        """
        self._capture, self._captures_everywhere = capture, every_rank
        return capture

    def resume(self) -> State | None:
        """Return what ``on_checkpoint`` gave when the job was last saved, and continue at that step; None = start new.

        Call it before the first step and put the state back yourself (``torch_state.restore`` does it for torch). In a
        gang it waits for the other ranks, and every rank gets the state of rank 0; so call it once all else is ready.
        """
        if self._gang is None:
            return self._load()
        self._is_in_gang = True
        begin = self._gang.enter(self._first_handover, wants_to_stop=self._is_asked_to_stop)
        if begin is None:
            self._leave_gang()
        self._step = begin["step"]
        if not self._gang.is_leader and begin["is_saved"]:
            self._saved = (self._step, "")
        state: State | None = begin["state"]
        return state

    def _load(self) -> State | None:
        """Return the state of the newest usable checkpoint and take its step over."""
        if self._resume_file is None:
            return None
        loaded = checkpoint_load(self._resume_file)
        if loaded is None:
            say("no usable checkpoint is left, training starts from the beginning")
            self._reports.send("resume_failed", name=self._resume_file.name, detail="no usable checkpoint is left")
            return None
        path, self._step, state = loaded
        if self._checkpoint_dir is not None and checkpoint_adopt(path, self._checkpoint_dir):
            self._saved = (self._step, path.name)
        return state

    def steps(self) -> Iterator[int]:
        """Yield the number of each step still to be trained, from 0; the code between two of them trains exactly one.

        When the job is asked to stop it writes a checkpoint between two steps and ends the process with code 75. After
        the last step it writes a checkpoint and reports completion.
        """
        self._begin()
        while not self._is_done():
            yield self._step
            self.boundary()

    def boundary(self) -> None:
        """Count one step as trained and do what is due. Only for a loop of your own; ``steps`` calls it itself.

        Raises:
            SystemExit: With code 75, when the job is asked to stop.
        """
        self._begin()
        self._step += 1
        if self._step == self._total_steps:
            self.complete()
            return
        self._answer(is_step=True)

    def poll(self) -> None:
        """Do what is due between two steps without counting one: in an evaluation, or while the training warms up.

        Never between ``backward`` and the optimizer's step. In a gang all ranks call it equally often in each step, and
        its size changes after steps alone. It begins a training; after the last step it does nothing.

        Raises:
            SystemExit: As ``boundary``.
        """
        self._begin()
        if not self._is_done():
            self._answer(is_step=False)

    def ask(self, step: int, *, total_steps: int | None = None) -> Request | None:
        """Do what is due but saving and leaving: for a framework that counts and saves by itself (``adapters``).

        Args:
            step: Steps that it has done. The same again counts none, as in ``poll``.
            total_steps: Those of the whole training.
        Returns:
            "stop": save, then ``leave``; "checkpoint": save; the same in all ranks.
        """
        is_step, self._step, self._total_steps = step != self._step, step, total_steps
        self._begin()
        return self._asked(is_step=is_step)

    def _answer(self, *, is_step: bool) -> None:
        """Report, and do what is asked or due."""
        request = self._asked(is_step=is_step)
        if request == "stop":
            self.leave()
        if request == "checkpoint":
            self.checkpoint()
        if self._gang is not None and is_step:
            self._follow_gang(self._gang)

    def _asked(self, *, is_step: bool) -> Request | None:
        """Report, leave the devices if asked, and return what all ranks are to do: stop, checkpoint, or go on."""
        now_s = self._clock()
        self._granted.boundary(now_s, alone=self._gang is None or self._gang.size == 1, is_step=is_step)
        if now_s - self._reported_s >= self._every_s:
            self._report_progress(now_s)
        request = self._requests.poll()
        if request is None and self._checkpoint_due(now_s, is_step=is_step):
            request = "checkpoint"
        request = self._agreed(request, may_switch=is_step)
        return self._park() if request == "park" else request

    def report(self, *, loss: SupportsFloat | None) -> None:
        """Note the loss of the present step. It goes out with the progress, about twice a second; cheap at every step.

        Args:
            loss: A number or a tensor of one element; it is read only when it goes out. Not finite is shown as missing.
        """
        detach = getattr(loss, "detach", None)  # a tensor must not keep its graph alive until then
        self._loss = loss if detach is None else detach()

    def checkpoint(self) -> str | None:
        """Write a checkpoint of what is trained now, and return its file name; None when there is nowhere or no way to.

        A disk that will not take it is said and reported; training goes on with the older ones.

        Raises:
            StateUnsavable: The state holds something that could not be loaded again: a mistake in the script.
        """
        self._checkpointed_s = self._clock()
        is_leader = self._gang is None or self._gang.is_leader
        if self._saved is None or self._saved[0] != self._step:
            if self._checkpoint_dir is None or not (is_leader or self._captures_everywhere):
                return None
            if self._capture is None:
                self._checkpoint_failed("the script gave no on_checkpoint")
                return None
            state = self._capture()
            name = self._write(self._checkpoint_dir, state) if is_leader else ""
            if self._gang is not None and self._captures_everywhere and any(self._gang.agree([name is None])):
                return None  # all capture again next time
            if name is None:
                return None
            self._saved = (self._step, name)
            self._checkpointed_s = self._clock()
        step, name = self._saved
        if not is_leader:
            return None
        self._reports.send("checkpoint", name=name, step=step)
        return name

    def _write(self, directory: Path, state: Mapping[str, Any]) -> str | None:
        try:
            return checkpoint_save(directory, step=self._step, state=state)
        except OSError as error:
            self._checkpoint_failed(str(error))
            return None

    def _checkpoint_failed(self, detail: str) -> None:
        say(f"no checkpoint at step {self._step}: {detail}")
        self._reports.send("checkpoint_failed", step=self._step, detail=detail)

    def _checkpoint_due(self, now_s: float, *, is_step: bool) -> bool:
        if self._capture is None or self._checkpoint_dir is None:
            return False
        by_time = self._checkpoint_every_s is not None and now_s - self._checkpointed_s >= self._checkpoint_every_s
        by_steps = self._checkpoint_every_steps is not None and self._step % self._checkpoint_every_steps == 0
        return by_time or (by_steps and is_step)

    def _begin(self) -> None:
        if self._rate is not None:
            return
        if self._gang is not None and not self._is_in_gang:
            self.resume()
        now_s = self._clock()
        self._rate = Rate(step=self._step, now_s=now_s)
        self._reported_s = self._checkpointed_s = now_s
        self._reports.send("started", step=self._step, total_steps=self._total_steps)
        if self._is_done():
            self.complete()
            return
        self._stop.install()
        if self._gang is not None:
            self._follow_gang(self._gang)
            return  # requests wait for the first boundary, where all ranks agree
        request = self._requests.poll()
        if request == "park":
            request = self._park()
        if request == "stop":
            self.leave()
        if request == "checkpoint":
            self.checkpoint()

    def _park(self) -> Request:
        """Leave the devices until asked to go on or to stop; return what was asked."""
        parked_s = self._clock()
        self._report_progress(parked_s)
        moved = Moved()
        self._say_parked()
        request: Request = wait_off_devices(
            self._requests, is_stopped=lambda: self._stop.received, on_asked_again=self._say_parked
        )
        if self._gang is not None:  # the first rank to hear waits here for the others; one that is to stop stops all
            request = self._agreed(request) or "continue"
        now_s = self._clock()
        # The time parked counts neither for the speed nor for the time since the last checkpoint.
        self._rate = Rate(step=self._step, now_s=now_s)
        self._checkpointed_s += now_s - parked_s
        if request == "continue":
            moved.back()
        return request

    def _say_parked(self) -> None:
        self._reports.send("parked", request=self._requests.newest, step=self._step)

    def _agreed(self, request: Request | None, *, may_switch: bool = False) -> Request | None:
        """Return what all ranks do at this boundary: the strongest wish that any of them was told."""
        is_stopped = self._stop.received or request == "stop"
        if self._gang is None:
            return "stop" if is_stopped else request
        wishes = [is_stopped, request == "park", request == "checkpoint"]
        agreed = zip(WISHES, self._gang.agree(wishes, may_switch=may_switch), strict=True)
        return next((wish for wish, is_wanted in agreed if is_wanted), None)

    def _follow_gang(self, gang: "Gang") -> None:
        """Form the group anew if that was agreed on, and tell which membership trains now."""
        if gang.is_switch_due:
            if not gang.switch(self._handover):
                self._leave_gang()
            self._rate = Rate(step=self._step, now_s=self._clock())
        if gang.version is not None and gang.version != self._told_version:
            self._told_version = gang.version
            self._reports.send("resized", version=gang.version, ranks=gang.size, pause_s=gang.pause_s)

    def _first_handover(self) -> dict[str, Any]:
        state = self._load()
        return {"step": self._step, "state": state, "is_saved": self._saved is not None}

    def _handover(self) -> dict[str, Any]:
        if self._capture is None:
            raise RuntimeMisuse("a gang can take in new ranks only if the script gives on_checkpoint")
        return {"step": self._step, "state": dict(self._capture()), "is_saved": False}

    def _is_asked_to_stop(self) -> bool:
        return self._requests.poll() == "stop"

    def _leave_gang(self) -> NoReturn:
        """End a rank that has no place in the gang any more, or never got one. The leader has the state."""
        self._reports.send("stopped", step=self._step)
        self._stop.remove()
        raise SystemExit(EXIT_STOPPED)

    def _is_done(self) -> bool:
        return self._total_steps is not None and self._step >= self._total_steps

    def complete(self, *, saves: bool = True) -> None:
        """Say that the last step is done. Only for a framework that knows it; ``steps`` and ``boundary`` do it."""
        # What the script does after its last step has no boundary: from here SIGTERM ends it at once, and a later
        # attempt starts from this checkpoint.
        self._stop.remove()
        self._report_progress(self._clock())
        if saves and self._capture is not None:
            self.checkpoint()
        self._reports.send("completed", step=self._step)

    def leave(self) -> NoReturn:
        """End the process as one that was asked to, with a checkpoint of the present step."""
        self._report_progress(self._clock())
        if self._step > 0:
            self.checkpoint()
        if self._gang is not None:
            self._gang.agree([True])  # nothing ends a rank that still saves because another one has gone
        self._reports.send("stopped", step=self._step)
        self._stop.remove()
        raise SystemExit(EXIT_STOPPED)

    def _report_progress(self, now_s: float) -> None:
        self._reported_s = now_s
        loss = finite(self._loss)
        rate = None if self._rate is None else self._rate.steps_per_s(step=self._step, now_s=now_s)
        if now_s - self._cached_s >= CACHED_EVERY_S:  # counting the items of a large dataset takes a while
            self._cached_s, self._cached_frac = now_s, cached_frac()
        self._reports.send(
            "progress",
            step=self._step,
            total_steps=self._total_steps,
            loss=loss,
            steps_per_s=finite(rate),
            **({} if self._cached_frac is None else {"cached_frac": self._cached_frac}),
        )
        if self._prints:
            of = "" if self._total_steps is None else f"/{self._total_steps}"
            shown = [f"step {self._step}{of}"]
            shown += [] if loss is None else [f"loss {loss:.4g}"]
            shown += [] if rate is None else [f"{rate:.3g} steps/s"]
            sys.stdout.write("  ".join(shown) + "\n")
            sys.stdout.flush()


def _use_granted_cores(num_cpus: int | None) -> None:
    """Keep torch from starting more threads than granted cores, which slows all jobs down many times over."""
    torch = sys.modules.get("torch")
    if torch is not None and num_cpus is not None:
        torch.set_num_threads(num_cpus)
