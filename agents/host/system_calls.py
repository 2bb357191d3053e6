"""Refuse a process, and all that it starts, the few system calls that reach what Landlock does not check: a filter.

``prlimit`` sets limits of any process of the same user: one second of CPU time, and the kernel kills it. Limits of the
calling process stay its own. The kernel's keyrings hold passwords of file systems and tickets of the user who started
the agent, and a process inherits them. Between fork and exec too, so the standard library only.

Source: Linux, Documentation/userspace-api/seccomp_filter.rst.
"""

import ctypes
import errno
import os
import struct

_PR_SET_SECCOMP, _MODE_FILTER, _PR_SET_NO_NEW_PRIVS = 22, 2, 38
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_LOAD, _EQUALS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
# Offsets in what a filter sees of a call: its number, the architecture, the lower half of its first argument.
_NUMBER, _ARCHITECTURE, _PID = 0, 4, 16
_X32 = 0x40000000  # calls of another width on x86-64
# By machine: what the kernel calls the architecture; the numbers of add_key, before request_key and keyctl, and of
# prlimit64, which is higher.
_MACHINES = {"x86_64": (0xC000003E, 248, 302), "aarch64": (0xC00000B7, 217, 261)}

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_calls() -> None:
    """Refuse keyrings, ``prlimit`` on other processes, and calls of other widths than the machine's. Raises OSError.

    The process must have no other thread. Nothing is changed on machines of another architecture.
    """
    machine = os.uname().machine
    if machine not in _MACHINES:
        return
    architecture, keys, prlimit = _MACHINES[machine]
    # Each is (code, jumps if true, jumps if false, constant).
    steps = (
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUALS, 0, 8, architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 6, 0, _X32),
        (_AT_LEAST, 1, 0, keys + 3),
        (_AT_LEAST, 4, 3, keys),
        (_EQUALS, 0, 2, prlimit),
        (_LOAD, 0, 0, _PID),
        (_EQUALS, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    )
    content = b"".join(struct.pack("HBBI", *step) for step in steps)
    program = _Program(length=len(steps), filter=content)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "seccomp")
