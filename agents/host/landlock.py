"""Confine a process, and all that it starts, to the files it may use: Landlock of the kernel, Linux 5.13 and newer.

Taken on by the process itself and never lifted again. Processes outside still reach it: a supervisor reads
and signals its job. The other way round the kernel refuses to trace a process outside, to read its memory, environment
or descriptors below ``/proc``, and from ABI 6 to signal it. Sockets stay open: Landlock does not check them.

Between fork and exec too, so the standard library only. Source: Linux, Documentation/userspace-api/landlock.rst.
"""

import ctypes
import os
import stat
from dataclasses import dataclass
from functools import lru_cache

_OPENAT2, _CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 437, 444, 445, 446  # the same on every architecture
_NO_SYMLINKS = 0x04
_AT_FDCWD = -100
_PR_SET_NO_NEW_PRIVS = 38
_VERSION = 1 << 0
_RULE_PATH_BENEATH, _RULE_NET_PORT = 1, 2
_CONNECT_TCP = 1 << 1
PORTS_ABI = 4  # from which connections by TCP can be refused
_SCOPE_SIGNAL = 1 << 1
SIGNALS_ABI = 6  # from which processes outside cannot be signalled

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
# What a kernel of each ABI can refuse: 13 rights at first, then renames between folders, truncation, device control.
_HANDLED = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_READ = _EXECUTE | _READ_FILE | _READ_DIR

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("ports", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


class _NetPort(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a confined process may use. Paths that do not exist are passed over, and so are those with a link in them.

    A link may be what another job has put there, to have this one, or the supervisor, open what it could not itself.

    Attributes:
        listed: Folders whose names, and those of all below, can be listed, but not read.
        readable: Files and folders that can be read and run, with all below.
        writable: Files and folders, devices among them, that can be written as well, with all below.
        rewritable: Folders whose files, with all below, can be written; nothing can be made or removed.
        ports: To which it may connect by TCP, where the kernel can tell; None for all.
    """

    listed: tuple[str, ...]
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    rewritable: tuple[str, ...] = ()
    ports: tuple[int, ...] | None = None


@lru_cache(maxsize=1)
def abi() -> int:
    """Return the version of Landlock in this kernel; 0 where it has none or has it switched off."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))))


def confine(allowed: Confinement) -> None:
    """Confine this thread and all that it starts; the process must have no other thread. Raises OSError.

    No program that it runs gains privileges any more. Nothing is changed where the kernel has no Landlock.
    """
    if not abi():
        return
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    handled = _HANDLED[max(version for version in _HANDLED if version <= abi())]
    closes_ports = allowed.ports is not None and abi() >= PORTS_ABI
    wanted = _Ruleset(
        files=handled,
        ports=_CONNECT_TCP if closes_ports else 0,
        scoped=_SCOPE_SIGNAL if abi() >= SIGNALS_ABI else 0,
    )
    # Older kernels refuse a structure with fields that they do not know.
    size = {True: 24, False: 16 if abi() >= 4 else 8}[abi() >= SIGNALS_ABI]
    ruleset = _call(_CREATE_RULESET, ctypes.byref(wanted), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for paths, rights in (
            (allowed.listed, _READ_DIR),
            (allowed.readable, _READ),
            (allowed.writable, handled),
            (allowed.rewritable, _WRITE_FILE | _TRUNCATE),
        ):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        for port in allowed.ports or () if closes_ports else ():
            rule = _NetPort(allowed=_CONNECT_TCP, port=port)
            number = ctypes.c_int(_RULE_NET_PORT)
            _call(_ADD_RULE, ctypes.c_int(ruleset), number, ctypes.byref(rule), ctypes.c_uint32(0))
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        how = _OpenHow(flags=os.O_PATH | os.O_CLOEXEC, resolve=_NO_SYMLINKS)
        descriptor = _call(
            _OPENAT2, ctypes.c_int(_AT_FDCWD), os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
    except OSError:
        return  # not there, or not to be reached by this user anyway
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        rule = _PathBeneath(allowed=rights, parent_fd=descriptor)
        _call(
            _ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_RULE_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0)
        )
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "landlock")
    return result
