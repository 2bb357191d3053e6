"""A warm training process: started ahead of time, it imports torch and waits for a job to run.

    python -P -m agents.supervisor.warm <descriptor of a socket>

The socket brings what ``start_child`` would have set: arguments, environment, working directory, output, cores, limits.
It is no fork of a process that has run anything, so it shares no random state, lock or thread. Ends when the other end
of the socket closes.
"""

import array
import contextlib
import ctypes
import json
import os
import resource
import runpy
import socket
import sys
import types
from typing import Any, NoReturn

from agents.host.landlock import Confinement, confine
from agents.host.launch_names import ATTEMPT_MARK
from agents.host.system_calls import refuse_calls

# As long as any attempt's id; overwritten in place, so that /proc shows the attempt of this process.
NOBODY = "0" * 26
# Its answers to an offer.
TAKEN, THREADED = b"g", b"t"
MOST_BYTES = 8 * 1024 * 1024
# The second is what torch imports with the first optimizer, which takes as long as torch itself.
IMPORTS = ("torch", "torch._dynamo", "torch.distributed", "agents.runtime.torch_state", "agents.runtime.gang")


def main(arguments: list[str]) -> NoReturn:
    """Import, wait, become the job."""
    with contextlib.suppress(ImportError):
        for name in IMPORTS:
            __import__(name)
    channel = socket.socket(fileno=int(arguments[0]))
    channel.sendall(b"r")
    told, descriptors = _receive(channel)
    if told["confinement"] is not None and len(os.listdir("/proc/self/task")) > 1:
        channel.sendall(THREADED)  # only this thread would be confined; the job is started anew
        sys.exit(1)
    _take_over(told, *descriptors)
    channel.sendall(TAKEN)
    channel.close()
    _run(told["argv"])


def _receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return what to be, and the descriptors of working directory and output; end when the socket closes."""
    received = array.array("i")
    head, ancillary, _, _ = channel.recvmsg(8, socket.CMSG_SPACE(2 * received.itemsize))
    if len(head) < 8:
        sys.exit(0)
    for _, _, data in ancillary:
        received.frombytes(data[: len(data) - len(data) % received.itemsize])
    size, content = int.from_bytes(head, "big"), b""
    while len(content) < size <= MOST_BYTES:
        content += channel.recv(size - len(content)) or sys.exit(0)
    told: dict[str, Any] = json.loads(content)
    return told, received.tolist()


def _take_over(told: dict[str, Any], work_fd: int, output_fd: int) -> None:
    env: dict[str, str] = told["env"]
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    ctypes.memmove(getenv(ATTEMPT_MARK.encode()), env[ATTEMPT_MARK].encode(), len(NOBODY))
    os.environ.clear()
    os.environ.update(env)
    if told["cpu_ids"]:
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):  # a core that was taken offline is no reason to refuse the job
                os.sched_setaffinity(int(task), told["cpu_ids"])
    if told["largest_file_bytes"]:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        most = told["largest_file_bytes"] if hard == resource.RLIM_INFINITY else min(told["largest_file_bytes"], hard)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    if told["work_path"]:
        os.chdir(told["work_path"])  # this process has a passage, and the descriptor leads past it
    else:
        os.fchdir(work_fd)
    if told["confinement"] is not None:
        confine(Confinement(**told["confinement"]))
        refuse_calls()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(int(env["OMP_NUM_THREADS"]))
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    os.close(work_fd)
    os.close(output_fd)


def _run(argv: list[str]) -> NoReturn:
    """Run what ``python FILE`` or ``python -m MODULE`` would run, as the main module."""
    if argv[1] == "-m":
        sys.argv = argv[2:]
        sys.path.insert(0, os.getcwd())
        runpy._run_module_as_main(argv[2])  # type: ignore[attr-defined]  # what the interpreter itself calls for -m
        sys.exit(0)
    path = os.path.abspath(argv[1])
    sys.argv = argv[1:]
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}\n")
        sys.exit(2)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = module
    sys.path.insert(0, os.path.dirname(path))
    try:
        exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102  (that is its purpose)
    except Exception as error:
        own = error.__traceback__  # the first frame of it is this function
        error.__traceback__ = own.tb_next if own is not None else None
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
