"""What failed by the end of a job's output: the classes, the deciding line, outputs that mislead or harm."""

import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.diagnosis import CLASSES, HIDDEN, LINE_CHARS, TAIL_BYTES, Finding, diagnose, redacted, secrets_of
from scheduler.core.operations.failures import FailureClass


def found(output: str, *, exit_signal: int | None = None, secrets: tuple[str, ...] = ()) -> Finding:
    """Return what is made of an output."""
    return diagnose(exit_signal=exit_signal, tail=output.encode(), secrets=secrets)


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        ("ModuleNotFoundError: No module named 'apex'", "import"),
        ("python: can't open file '/work/trian.py': [Errno 2] No such file or directory", "import"),
        ("SyntaxError: invalid syntax", "syntax"),
        ("train.py: error: unrecognized arguments: --lrr 0.1", "config"),
        ("yaml.scanner.ScannerError: mapping values are not allowed here", "config"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "gpu_oom"),
        ("[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory.", "gpu_oom"),
        ("RuntimeError: DataLoader worker (pid 71) is killed by signal: Killed. ", "cpu_oom"),
        ("numpy.core._exceptions.MemoryError: Unable to allocate", "cpu_oom"),
        ("OSError: [Errno 28] No space left on device", "disk_full"),
        ("OSError: [Errno 27] File too large", "disk_full"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'labels.csv'", "incorrect_input"),
        ("PIL.UnidentifiedImageError: cannot identify image file 'x.jpg'", "incorrect_input"),
        ("agents.runtime.errors.EverythingBad: dataset photos has no item that can be read", "incorrect_input"),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x10 and 20x5)", "semantic"),
        ("RuntimeError: Error(s) in loading state_dict for Net:", "semantic"),
        ("OSError: [Errno 98] Address already in use", "semantic"),
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
            "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
            "semantic",
        ),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "invalid_memory"),
        ("RuntimeError: PytorchStreamReader failed finding central directory", "checkpoint_error"),
        ("RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1331, unhandled system error", "mpi"),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "network"),
        ("OSError: [Errno 116] Stale file handle: '/data/part-1'", "storage"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "node"),
        ("ValueError: label 11 is out of range", "unclassified"),
    ],
)
def test_line_names_its_class(line: str, failure: str) -> None:
    """The line that decides is kept as it is."""
    output = f"step 1\nTraceback (most recent call last):\n  File 'a.py', line 3, in <module>\n{line}\n"

    assert found(output) == Finding(failure=failure, line=line.strip())


@pytest.mark.parametrize(("given_port", "failure"), [(None, "semantic"), (2950, "semantic"), (29500, "mpi")])
def test_port_in_use_is_the_scripts_fault_unless_it_was_given(given_port: int | None, failure: str) -> None:
    """A script that chose a port which another job has says nothing about the server."""
    tail = b"DistNetworkError: failed to listen. port: 29500, name: EADDRINUSE, message: address already in use\n"

    assert diagnose(exit_signal=None, tail=tail, given_port=given_port).failure == failure


def test_every_class_is_one_of_the_schedulers_list() -> None:
    """Nothing is reported that the scheduler would not know."""
    assert {FailureClass(name) for name in CLASSES} < set(FailureClass)


def test_the_rank_that_failed_counts_and_not_those_that_complain() -> None:
    """The others lose their connection afterwards."""
    output = "torch.OutOfMemoryError: CUDA out of memory.\n[rank1]: ncclRemoteError: connection closed by peer\nbye\n"

    assert found(output).failure == "gpu_oom"


def test_an_error_that_was_dealt_with_does_not_count() -> None:
    """The newest exception decides, even where it tells no class."""
    output = "ImportError: no fused kernels\nusing slow ones\nValueError: label 11 is out of range\n"

    assert found(output) == Finding(failure="unclassified", line="ValueError: label 11 is out of range")


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("/usr/bin/python3: No module named trian\n", "/usr/bin/python3: No module named trian"),
        ("[rank1]: ModuleNotFoundError: No module named 'apex'\n" + "[rank0]: step\n" * 60, "[rank1]: Mod"),
        ("run.sh: line 3: tarin: command not found\ncleaning up\n\n\n", "run.sh: line 3: tarin: command not found"),
        ("zsh: command not found: tarin\n", "zsh: command not found: tarin"),
        ("No module named 'apex'\n", "No module named 'apex'"),
        ("./run: error while loading shared libraries: libx.so: cannot open shared object file\n", "./run: error"),
    ],
)
def test_the_last_word_of_a_program_names_what_is_missing(output: str, line: str) -> None:
    """Of Python, of a shell, of the loader; a little may follow, of a clean-up or of other ranks."""
    assert found(output).failure == "import"
    assert found(output).line.startswith(line)


@pytest.mark.parametrize(
    "output",
    [
        "sh: nvidia-smi: command not found\n" + "step\n" * 10 + "stopped, the loss is nan\n",
        "ImportError: no fused kernels\n" + "step\n" * 100,
        "ImportError: no fused kernels: No module named 'apex'\n" + "step\n" * 100,
        "train.py: error: argument --fast is ignored\n" + "step\n" * 10,
        "WARNING: No module named 'apex', using slow kernels\n",
        "/opt/a.py:12: UserWarning: No module named 'apex'\n",
        "ImportWarning: No module named 'apex'\n",
        "2026-11-29 10:00:00,123 INFO plugin: No module named 'apex'\n",
        "retried the hook that said 'command not found' before\n",
        "SyntaxError: of a cell that was skipped\n" + "step\n" * 100,
    ],
)
def test_a_line_that_was_not_the_end_blames_nothing(output: str) -> None:
    """A warning, a line of a log, or an error that the job went on after: nothing is known, so it is tried again."""
    assert found(output).failure == "unclassified"


def test_an_old_warning_does_not_hide_the_cause() -> None:
    """What follows it counts as before."""
    output = "sh: nvidia-smi: command not found\n" + "step\n" * 20 + "OSError: [Errno 28] No space left on device\n"

    assert found(output).failure == "disk_full"


def test_crash_without_words_is_named_by_its_signal() -> None:
    """A segmentation fault prints nothing in the job itself."""
    assert found("step 7\n", exit_signal=signal.SIGSEGV) == Finding(failure="invalid_memory", line="")
    assert found("step 7\n", exit_signal=signal.SIGKILL) == Finding(failure="unclassified", line="")


def test_secrets_never_leave_the_attempt() -> None:
    """By the names of variables, by the words before them, and by their looks."""
    env = {"WANDB_API_KEY": "0123abcd", "HF_TOKEN": "hf", "SIZE": "large"}
    secrets = secrets_of(env)
    line = (
        "RuntimeError: 0123abcd large token=t0p 'password': 'two words' Authorization: Bearer ab.cd== "
        "https://me:pw@host/x sk-abcdefghijklmnop"
    )
    shown = redacted(line, secrets)

    assert secrets == ("0123abcd",)
    assert shown.startswith(f"RuntimeError: {HIDDEN} large")
    for secret in ("0123abcd", "t0p", "two words", "ab.cd", "me:pw", "sk-abc"):
        assert secret not in shown


def test_terminal_codes_and_direction_marks_are_taken_out() -> None:
    """What is shown is what is there."""
    assert found("\x1b[31mValueError:\x1b[0m a\u202eb\x00c\n").line == "ValueError: abc"


@given(st.binary(max_size=4096))
def test_any_bytes_give_a_short_clean_line(output: bytes) -> None:
    """Nothing that a job writes makes the supervisor stumble."""
    seen = diagnose(exit_signal=None, tail=output)

    assert seen.failure in CLASSES
    assert len(seen.line) <= LINE_CHARS
    assert seen.line.isprintable()


@pytest.mark.parametrize(
    "output",
    [
        b"a" * 10_000_000,
        b"ImportError: " + b"password" * 1_000_000,
        b"\x1b[" * 1_000_000,
        b"ImportError: " + b"token: " * 1_000_000,
        b"ImportError: " + b"://" * 1_000_000,
        b"A" * 1000 + b"\n" * 1_000_000,
    ],
)
def test_hostile_output_costs_little(output: bytes) -> None:
    """Only a bounded piece is looked at, in linear time."""
    began_s = time.process_time()
    diagnose(exit_signal=None, tail=output[-TAIL_BYTES:])
    diagnose(exit_signal=None, tail=output[:TAIL_BYTES])

    assert time.process_time() - began_s < 1.0
