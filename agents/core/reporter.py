"""The reports of this server and their sequence number, which rises across restarts. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from agents.core.events import Sampled, SendReport
from agents.core.known import Known
from agents.core.lease import LeaseBook
from agents.protocol.environments import EnvironmentReport
from agents.protocol.ports import Clock
from agents.protocol.server_report import AttemptReport, ServerReport
from agents.protocol.signing import Stamp, seal

# The sequence on disk runs ahead in steps of this size, so that a report does not wait for the disk.
CEILING_STEP = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProfile:
    """Identity of this agent and the resources that it offers.

    Attributes:
        server_id: Fixed length, see ``SERVER_ID``.
        key: Of the signatures, shared with the scheduler.
        agent_version, boot_id, device_kind, isolation, num_cpus, memory_bytes: As in ``ServerReport``.
        cpu_ids: Cores of the machine that logical cores are mapped on, round robin; empty for no pinning.
        journal_dir: Directory of the process journal.
        first_uid: User of the jobs of queue 0; None when jobs run as the agent's own user.
        refusal: Why the server takes no jobs; empty when it does.
        address: By which the other servers reach this one.
        python: Version of the Python that environments are built with; empty where none can be built.
        environment_tag: What the environments of today are made with, see ``environment_name``.
    """

    server_id: str
    key: bytes
    agent_version: str
    boot_id: str
    device_kind: Literal["gpu", "cpu_slot"]
    isolation: str
    num_cpus: int
    memory_bytes: int
    cpu_ids: tuple[int, ...]
    journal_dir: str
    first_uid: int | None = None
    refusal: str = ""
    address: str = ""
    python: str = ""
    environment_tag: str = ""


class Reporter:
    """Writes the sealed reports of one server.

    Attributes:
        sampled: Newest telemetry; nothing is reported before there is some, as a server without devices is no news.
        environments: How they stand; None before that is known.
    """

    def __init__(self, profile: ServerProfile, clock: Clock, lease: LeaseBook) -> None:
        self.sampled: Sampled | None = None
        self.environments: tuple[EnvironmentReport, ...] | None = None
        self._profile = profile
        self._clock = clock
        self._lease = lease
        self._sequence = 0
        self._ceiling = 0
        self._is_new = True  # until it has heard from the scheduler

    @property
    def is_ready(self) -> bool:
        """Return whether there is something to report."""
        return self.sampled is not None

    @property
    def needs_ceiling(self) -> bool:
        """Return whether a new ceiling is to be kept on disk soon."""
        return self._sequence > self._ceiling - CEILING_STEP // 10

    def start(self, *, after: int) -> None:
        """Begin above every sequence an earlier run can have used, even when the wall clock was set back: ``after`` is
        what it kept on disk, 0 when that is lost.
        """
        self._sequence = max(after, int(self._clock.now().timestamp() * 1000))

    def ceiling(self, *, acknowledged: int = 0) -> int:
        """Return the sequence to keep on disk: no report goes above it before the next call.

        ``acknowledged`` is the report that the scheduler took last, as far as is known.
        """
        sequence = max(self._sequence, self._above(acknowledged))
        if sequence > self._ceiling - CEILING_STEP // 10:
            self._ceiling = sequence + CEILING_STEP
        return self._ceiling

    def go_on(self, *, acknowledged: int) -> None:
        """Raise the sequence above a report that the scheduler took and this agent does not know, as after
        a lost memory and a clock set back.

        To be called when the ceiling for it is on disk. Only the first one after the start counts: of two agents with
        one identity the one that is not heard stays so.
        """
        self._sequence = max(self._sequence, self._above(acknowledged))
        self._is_new = False

    def _above(self, acknowledged: int) -> int:
        """Return a sequence above all that the run which was acknowledged can have sent before its messages expired.

        The same number twice would let a lease count from the wrong report.
        """
        return acknowledged + CEILING_STEP if self._is_new and acknowledged > self._sequence else 0

    def report(self, stamp: Stamp, known: Mapping[str, Known]) -> SendReport:
        """Return the next report; the lease counts from now if it is acknowledged."""
        self._sequence += 1
        self._lease.sent(self._sequence, self._clock.mono_s())
        message = seal(
            key=self._profile.key,
            direction="report",
            server=self._profile.server_id,
            stamp=replace(stamp, sequence=self._sequence),
            now_s=self._clock.now().timestamp(),
            body=self._body(known).to_json(),
        )
        return SendReport(message=message)

    def _body(self, known: Mapping[str, Known]) -> ServerReport:
        profile, sampled = self._profile, self.sampled
        devices = sampled.devices if sampled else ()
        used = {device.index: device.utilization_frac for device in devices}
        return ServerReport(
            agent_version=profile.agent_version,
            boot_id=profile.boot_id,
            device_kind=profile.device_kind,
            isolation=profile.isolation,
            num_cpus=profile.num_cpus,
            memory_bytes=profile.memory_bytes,
            cpu_frac=sampled.cpu_frac if sampled else None,
            used_memory_bytes=sampled.used_memory_bytes if sampled else None,
            devices=devices,
            attempts=tuple(_with_gpu_use(attempt, used) for _, attempt in sorted(known.items())),
            address=profile.address,
            environments=self.environments,
            python=profile.python,
        )


def _with_gpu_use(known: Known, used: Mapping[int, float | None]) -> AttemptReport:
    """Return the attempt's report with the mean utilization of its devices."""
    measured = [use for index in known.gpu_indexes if (use := used.get(index)) is not None]
    return replace(known.report, gpu_frac=sum(measured) / len(measured) if measured else None)
