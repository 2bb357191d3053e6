"""The configuration file of one agent: its fields, defaults and checks. Read once at start."""

import json
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agents.protocol.errors import ConfigInvalid, Malformed
from agents.protocol.fields import SERVER_ID, read_ints, read_opt_int, read_str, read_strings

VERSION = "0.1.0"
DEFAULT_CPU_SLOTS = 2
DEFAULT_ENVIRONMENT_GIB = 50
DEFAULT_ENVIRONMENT_BUILD_MIN = 30
DEFAULT_ENVIRONMENT_BUILD_MEMORY_GIB = 16
DEFAULT_ENVIRONMENT_BUILD_DISK_GIB = 30
# Left to the machine itself when the file does not say how much memory is on offer.
OFFERED_MEMORY_FRAC = 0.8
# At least 128 bits.
_KEY = re.compile(r"([0-9a-fA-F]{2}){16,}")
LOOPBACK = "127.0.0.1"
_SCHEMES = ("redis://", "rediss://", "unix://")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """Identity, addresses, directories and offered resources of one agent.

    Attributes:
        server_id: Given by the scheduler at registration.
        server_name: For people.
        key: Of the signatures.
        address: By which the other servers reach this one.
        redis_url: ``redis://``, ``rediss://`` or ``unix://:password@/path.sock``.
        shared_dir: Holds ``attempts/`` and ``jobs/``; the web reads logs there.
        state_dir: Of this agent alone, on a local disk; holds the scratch of its jobs.
        cpu_slots: Offered where there is no GPU.
        gpu_uuids: GPUs of the machine that this agent offers, where several agents share one; None for all.
        cpu_ids: Cores of the machine that jobs may be pinned to.
        memory_bytes: On offer.
        warm_processes: How many processes with torch imported wait for the next jobs.
        readable_dirs, writable_dirs: What jobs may use beside the system and folders of their own.
        file: Where this was read; jobs must not.
        confines: Jobs are confined to their own files where the kernel can.
        own_user: Jobs run as the agent's own user, even as root; else root gives each queue a user, or takes no jobs.
        environment_bytes: Most that Python environments of jobs may take on this server's disk.
        environment_build_s: Most that the build of one may take, seconds.
    """

    server_id: str
    server_name: str
    key: bytes
    redis_url: str
    shared_dir: Path
    state_dir: Path
    cpu_slots: int
    cpu_ids: tuple[int, ...]
    memory_bytes: int
    address: str = LOOPBACK
    warm_processes: int = 0
    gpu_uuids: tuple[str, ...] | None = None
    readable_dirs: tuple[str, ...] = ()
    writable_dirs: tuple[str, ...] = ()
    file: str = ""
    confines: bool = True
    own_user: bool = False
    environment_bytes: int = DEFAULT_ENVIRONMENT_GIB * 2**30
    environment_build_s: float = DEFAULT_ENVIRONMENT_BUILD_MIN * 60.0
    environment_build_memory_bytes: int = DEFAULT_ENVIRONMENT_BUILD_MEMORY_GIB * 2**30
    environment_build_disk_bytes: int = DEFAULT_ENVIRONMENT_BUILD_DISK_GIB * 2**30

    @property
    def attempts_dir(self) -> Path:
        """Return the directory of all attempts."""
        return self.shared_dir / "attempts"

    @property
    def celery_broker_url(self) -> str:
        """Return the broker in Celery's spelling."""
        if self.redis_url.startswith("unix://"):
            return "redis+socket://" + self.redis_url.removeprefix("unix://")
        return self.redis_url


def machine_memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _address_towards(redis_url: str) -> str:
    """Return the address of this machine on its way to the broker; that of the machine itself for a broker on it."""
    parts = urlsplit(redis_url)
    if parts.scheme == "unix" or not parts.hostname:
        return LOOPBACK
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((parts.hostname, parts.port or 6379))  # sends nothing
        except OSError:
            return LOOPBACK
        return str(probe.getsockname()[0])


def _read(data: dict[str, Any]) -> AgentConfig:
    redis_url = read_str(data, "redis_url", most=2000)
    if not redis_url.startswith(_SCHEMES):
        raise Malformed("redis_url")
    cpu_ids = read_ints(data, "cpu_ids", high=4095) if data.get("cpu_ids") else ()
    slots = read_opt_int(data, "cpu_slots", low=1, high=1024)
    memory_bytes = read_opt_int(data, "memory_bytes", low=1)
    return AgentConfig(
        server_id=read_str(data, "server_id", pattern=SERVER_ID),
        server_name=read_str(data, "server_name", most=80),
        key=bytes.fromhex(read_str(data, "key_hex", most=200, pattern=_KEY)),
        redis_url=redis_url,
        shared_dir=Path(read_str(data, "shared_dir", most=4000)).absolute(),
        state_dir=Path(read_str(data, "state_dir", most=4000)).absolute(),
        cpu_slots=DEFAULT_CPU_SLOTS if slots is None else slots,
        cpu_ids=cpu_ids or tuple(sorted(os.sched_getaffinity(0))),
        memory_bytes=int(machine_memory_bytes() * OFFERED_MEMORY_FRAC) if memory_bytes is None else memory_bytes,
        warm_processes=read_opt_int(data, "warm_processes", high=64) or 0,
        gpu_uuids=read_strings(data, "gpu_uuids", longest=80) if data.get("gpu_uuids") else None,
        address=read_str(data, "address", most=253) if data.get("address") else _address_towards(redis_url),
    )


def _dirs(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    dirs = tuple(path for path in environ.get(name, "").split(os.pathsep) if path)
    for path in dirs:
        if not os.path.isabs(path):
            raise ConfigInvalid(f"{name} cannot be used: {path!r} is not an absolute path.")
    return dirs


def _one_of(environ: Mapping[str, str], name: str, usual: str, other: str) -> str:
    value = environ.get(name, usual)
    if value not in (usual, other):
        raise ConfigInvalid(f"{name} cannot be used: it is neither {usual} nor {other}.")
    return value


def _positive(environ: Mapping[str, str], name: str, usual: float) -> float:
    try:
        value = float(environ.get(name) or usual)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ConfigInvalid(f"{name} cannot be used: {environ[name]!r} is not a number above 0.")
    return value


def _gib(environ: Mapping[str, str], name: str, usual: float) -> int:
    return int(_positive(environ, name, usual) * 2**30)


def config_load(path: str | Path) -> AgentConfig:
    """Return the configuration. Raises ConfigInvalid."""
    try:
        data = json.loads(Path(path).read_text())
        config = _read(data)
    except OSError as error:
        raise ConfigInvalid(f"AGENT_CONFIG={str(path)!r} cannot be read: {error.strerror}.") from None
    except (Malformed, KeyError) as error:
        raise ConfigInvalid(f"AGENT_CONFIG={str(path)!r}: {error} is missing or cannot be used.") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigInvalid(f"AGENT_CONFIG={str(path)!r} cannot be used: {error}.") from None
    return config


def config_from_environment(environ: Mapping[str, str]) -> AgentConfig:
    """Return the configuration that AGENT_CONFIG names, with the folders that JOB_READ_DIRS and JOB_WRITE_DIRS open.

    Raises ConfigInvalid.
    """
    path = environ.get("AGENT_CONFIG", "")
    if not path:
        raise ConfigInvalid("AGENT_CONFIG is not set: it must name the agent's configuration file.")
    config = config_load(path)
    writable = _dirs(environ, "JOB_WRITE_DIRS")
    for closed in (config.shared_dir, config.state_dir):
        for folder in writable:
            if closed.resolve().is_relative_to(Path(folder).resolve()):
                raise ConfigInvalid(f"JOB_WRITE_DIRS cannot be used: {folder} holds {closed}, which is closed to jobs.")
    return replace(
        config,
        readable_dirs=_dirs(environ, "JOB_READ_DIRS"),
        writable_dirs=writable,
        file=os.path.abspath(path),
        confines=_one_of(environ, "JOB_CONFINEMENT", "on", "off") == "on",
        own_user=_one_of(environ, "JOB_USER", "queue", "own") == "own",
        environment_bytes=_gib(environ, "ENVIRONMENT_CACHE_GIB", DEFAULT_ENVIRONMENT_GIB),
        environment_build_s=_positive(environ, "ENVIRONMENT_BUILD_MIN", DEFAULT_ENVIRONMENT_BUILD_MIN) * 60.0,
        environment_build_memory_bytes=_gib(
            environ, "ENVIRONMENT_BUILD_MEMORY_GIB", DEFAULT_ENVIRONMENT_BUILD_MEMORY_GIB
        ),
        environment_build_disk_bytes=_gib(environ, "ENVIRONMENT_BUILD_DISK_GIB", DEFAULT_ENVIRONMENT_BUILD_DISK_GIB),
    )
