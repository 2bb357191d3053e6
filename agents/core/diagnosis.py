"""Classify the failure of a job from the end of its output: one class of the scheduler's list, and the line. Pure.

The output is not trusted: it may be one endless line, binary, or written to mislead. So a bounded part is read, in time
linear in its length, and a class that blames the machine earns no more than a few retries.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (Philly), ATC 2019,
section 4 and its table of failures. Differs: the signatures are those of today's libraries.
"""

import re
import signal
from collections.abc import Collection, Iterable
from dataclasses import dataclass

# So much of the end of the output is searched; an exception with its traceback is far shorter.
TAIL_BYTES = 64 * 1024
LINE_CHARS = 300
_READ_CHARS = 2_000  # of a line

# Signals by which the processor itself ends a process.
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})

# A port that another process has. The script chose it, unless it is the one that its gang was given.
_IN_USE = ("address already in use", "eaddrinuse")
# Phrases that say more than the name of an exception. Lower case, the most telling first.
_PHRASES: tuple[tuple[str, str], ...] = (
    ("cuda out of memory", "gpu_oom"),
    ("cuda_error_out_of_memory", "gpu_oom"),
    ("hip out of memory", "gpu_oom"),
    ("cublas_status_alloc_failed", "gpu_oom"),
    ("no space left on device", "disk_full"),
    ("disk quota exceeded", "disk_full"),
    ("file too large", "disk_full"),
    ("cannot allocate memory", "cpu_oom"),
    ("std::bad_alloc", "cpu_oom"),
    ("defaultcpuallocator: can't allocate memory", "cpu_oom"),
    ("is killed by signal: killed", "cpu_oom"),  # a data loader
    ("uncorrectable ecc error", "node"),
    ("gpu has fallen off the bus", "node"),
    ("no cuda-capable device is detected", "node"),
    ("cuda_error_no_device", "node"),
    ("cuda driver initialization failed", "node"),
    ("unspecified launch failure", "node"),
    ("illegal memory access", "invalid_memory"),
    ("misaligned address", "invalid_memory"),
    ("segmentation fault", "invalid_memory"),
    ("double free or corruption", "invalid_memory"),
    ("stale file handle", "storage"),
    ("input/output error", "storage"),
    ("transport endpoint is not connected", "storage"),
    ("read-only file system", "storage"),
    ("remote i/o error", "storage"),
    ("no usable checkpoint is left", "checkpoint_error"),
    ("pytorchstreamreader failed", "checkpoint_error"),
    ("invalid load key", "checkpoint_error"),
    ("error(s) in loading state_dict", "semantic"),
    ("shapes cannot be multiplied", "semantic"),
    ("size mismatch", "semantic"),
    ("expected scalar type", "semantic"),
    *((phrase, "semantic") for phrase in _IN_USE),
    ("device-side assert triggered", "semantic"),
    ("driver version is insufficient", "semantic"),
    ("undefined symbol", "semantic"),
    ("cannot open shared object file", "import"),
    ("can't open file", "import"),
    ("command not found", "import"),
    ("no module named", "import"),
    ("error: unrecognized arguments", "config"),
    ("error: the following arguments are required", "config"),
    ("error: argument ", "config"),
    ("cannot identify image file", "incorrect_input"),
    ("ncclremoteerror", "mpi"),
    ("ncclsystemerror", "mpi"),
    ("ncclinternalerror", "mpi"),
    ("nccl error", "mpi"),
    ("watchdog caught collective operation timeout", "mpi"),
    ("mpi_abort", "mpi"),
    ("connectfullmesh failed", "mpi"),
    ("connection closed by peer", "mpi"),
    ("temporary failure in name resolution", "network"),
    ("name or service not known", "network"),
    ("connection reset by peer", "network"),
    ("connection refused", "network"),
    ("connection timed out", "network"),
    ("network is unreachable", "network"),
    ("no route to host", "network"),
)
# By the name of a Python exception, without its module.
_EXCEPTIONS: dict[str, str] = {
    "SyntaxError": "syntax",
    "IndentationError": "syntax",
    "TabError": "syntax",
    "ModuleNotFoundError": "import",
    "ImportError": "import",
    "MemoryError": "cpu_oom",
    "OutOfMemoryError": "gpu_oom",
    "DistBackendError": "mpi",
    "DistNetworkError": "mpi",
    "DistStoreError": "mpi",
    "ConnectionError": "network",
    "ConnectionResetError": "network",
    "ConnectionRefusedError": "network",
    "ConnectionAbortedError": "network",
    "gaierror": "network",
    "URLError": "network",
    "UnpicklingError": "checkpoint_error",
    "StateMismatch": "semantic",
    "StateUnsavable": "semantic",
    "BadEnvironment": "config",
    "ScannerError": "config",
    "ParserError": "config",
    "EverythingBad": "incorrect_input",
    "FileNotFoundError": "incorrect_input",
    "IsADirectoryError": "incorrect_input",
    "NotADirectoryError": "incorrect_input",
    "UnicodeDecodeError": "incorrect_input",
    "JSONDecodeError": "incorrect_input",
    "UnidentifiedImageError": "incorrect_input",
    "BadZipFile": "incorrect_input",
    "BadGzipFile": "incorrect_input",
}
# When one rank fails, the others complain about the connection: what they say later decides nothing.
_FOLLOWS = frozenset({"mpi", "network"})
# Failures that only the job's owner can mend. Such a job is not tried again, so a line counts only if it looks like the
# end of a program and is among the newest non-empty lines: among the last 100 for an exception, which the output of
# other ranks may follow; among the last 10 for the line of a shell or an argument parser, which comes last.
_FINAL = frozenset({"import", "config", "syntax"})
_NEWEST_OF_EXCEPTION = 100
_NEWEST_OF_PROGRAM = 10
UNCLASSIFIED = "unclassified"
CLASSES = frozenset({UNCLASSIFIED, *_EXCEPTIONS.values(), *(failure for _, failure in _PHRASES)})

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_EXCEPTION_ENDS = ("Error", "Exception", "Interrupt")
_PROGRAM = re.compile(r"([\w./+-]+): ")
_LEVELS = frozenset({"debug", "info", "notice", "note", "hint", "warn", "warning"})

HIDDEN = "***"
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH")
_SHORTEST_SECRET = 4
_NAMED_SECRET = re.compile(
    r"(?i)((?:password|passwd|secret|token|api[_-]?key|access[_-]?key|credentials?)[\w-]{0,40}[\"']?\s{0,4}[=:]\s{0,4})"
    r"(?:\"[^\"]*\"?|'[^']*'?|[^\s\"'&,;]+)"
)
_SCHEME_SECRET = re.compile(r"(?i)\b(bearer|basic)\s{1,4}[\w.~+/=-]+")
_URL_SECRET = re.compile(r"://[^/\s@]{1,200}@")
_TOKENS = re.compile(r"\b(?:AKIA|ASIA|gh[pousr]_|sk-|hf_|xox[abprs]-|glpat-|eyJ)[\w.-]{12,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A class of failure and the line that shows it; empty when none does."""

    failure: str = UNCLASSIFIED
    line: str = ""


def diagnose(
    *, exit_signal: int | None, tail: bytes, secrets: Collection[str] = (), given_port: int | None = None
) -> Finding:
    """Return why a job failed by itself.

    Args:
        exit_signal: Signal that ended it; None when it ended with an exit code.
        tail: The end of its output; no more than the last ``TAIL_BYTES`` are looked at.
        secrets: Texts that never leave the attempt.
        given_port: On which its gang was to meet; None for none.
    """
    found = _best(_lines(tail[-TAIL_BYTES:].decode(errors="replace")))
    if exit_signal in _CRASHES and found.failure == UNCLASSIFIED:
        found = Finding(failure="invalid_memory", line=found.line)
    if given_port is not None and _is_in_use(found.line, given_port):
        found = Finding(failure="mpi", line=found.line)
    return Finding(failure=found.failure, line=redacted(found.line, secrets)[:LINE_CHARS])


def _is_in_use(line: str, port: int) -> bool:
    return any(phrase in line.lower() for phrase in _IN_USE) and re.search(rf"(?<!\d){port}(?!\d)", line) is not None


def secrets_of(env: dict[str, str]) -> tuple[str, ...]:
    """Return the values of the variables whose names say that they are secret, longest first."""
    found = {
        value
        for name, value in env.items()
        if len(value) >= _SHORTEST_SECRET and any(word in name.upper() for word in _SECRET_NAMES)
    }
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def redacted(line: str, secrets: Collection[str]) -> str:
    """Return the line without the given texts and without passwords and tokens by their look."""
    for secret in secrets:
        line = line.replace(secret, HIDDEN)
    line = _URL_SECRET.sub(f"://{HIDDEN}@", line)
    line = _SCHEME_SECRET.sub(rf"\1 {HIDDEN}", line)
    line = _NAMED_SECRET.sub(rf"\1{HIDDEN}", line)
    return _TOKENS.sub(HIDDEN, line)


def _lines(text: str) -> Iterable[str]:
    """Yield the lines, newest first, bounded and without what is not printable."""
    for raw in reversed(text.replace("\r", "\n").split("\n")):
        line = _ESCAPE.sub("", raw[:_READ_CHARS])
        yield "".join(letter for letter in line if letter.isprintable()).strip()


def _best(lines: Iterable[str]) -> Finding:
    """Return the newest line that names a cause; a complaint of other ranks only where there is no cause."""
    complaint = unknown = None
    newer = 0  # lines that are not empty
    for line in lines:
        failure = _class_of(line, newer=newer)
        newer += bool(line)
        if failure is None:
            continue
        finding = Finding(failure=failure, line=line)
        if failure == UNCLASSIFIED:
            unknown = unknown or finding
        elif failure in _FOLLOWS:
            complaint = complaint or finding
        elif unknown is None or complaint is not None:
            return finding
        else:
            # The newest exception is one that we cannot place: an older one beside it may have been dealt with.
            break
    return complaint or unknown or Finding()


def _class_of(line: str, *, newer: int) -> str | None:
    """Return the class of failure that a line shows; None for none.

    Args:
        newer: How many lines stand after it, empty ones apart.
    """
    if line.startswith("["):  # [rank0]: of a gang
        line = line.partition("]")[2].lstrip(": ")
    lower = line.lower()
    exception = _exception_of(line)
    for phrase, failure in _PHRASES:
        if phrase in lower and (failure not in _FINAL or _is_end(line, phrase, exception, newer=newer)):
            return failure
    known = _EXCEPTIONS.get(exception)
    if known in _FINAL and newer >= _NEWEST_OF_EXCEPTION:
        return None
    return known or (UNCLASSIFIED if exception.endswith(_EXCEPTION_ENDS) else None)


def _exception_of(line: str) -> str:
    """Return the name of the exception, without its module, of a line as a traceback ends with; else nothing."""
    name = line.partition(":")[0].strip()
    return name.rpartition(".")[2] if _DOTTED.fullmatch(name) else ""


def _is_end(line: str, phrase: str, exception: str, *, newer: int) -> bool:
    """Return whether a line with a phrase may be the last word of a program, not a warning or a line of a log."""
    if exception in _EXCEPTIONS or exception.endswith(_EXCEPTION_ENDS):
        return newer < _NEWEST_OF_EXCEPTION
    program = _PROGRAM.match(line)
    name = program[1].lower() if program else ""
    is_said_by_program = bool(name) and name not in _LEVELS and not name.endswith("warning")
    return newer < _NEWEST_OF_PROGRAM and (is_said_by_program or line.lower().startswith(phrase))
