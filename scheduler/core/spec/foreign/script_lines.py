"""The lines of a shell script that start ranks, in the words of this cluster.

``srun`` starts a program on several servers, here the script itself is started there; torchrun is told its place by
variables, here by those that it reads itself. What can be said in our words is, what cannot is listed.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.core.spec.foreign.translation import Translation
from scheduler.core.spec.launch import LaunchPer

# Options of srun with a value of their own after a blank.
_SRUN_VALUES = frozenset(
    {"-n", "-N", "-c", "-w", "-x", "-p", "-t", "-G", "-o", "-e", "-i", "-J", "-A", "-D", "-m"}
    | {
        f"--{name}"
        for name in (
            *("ntasks", "nodes", "cpus-per-task", "ntasks-per-node", "gpus", "gpus-per-task", "gpus-per-node", "gres"),
            *("nodelist", "exclude", "partition", "time", "output", "error", "input", "job-name", "mem", "mpi"),
            *("cpu-bind", "gpu-bind", "distribution", "chdir", "account", "export"),
        )
    }
)
# Arguments of torchrun that say where its ranks are; it reads them from PET_ variables when they are not given.
_PLACES = frozenset(
    {
        *("nnodes", "nproc_per_node", "node_rank", "master_addr", "master_port"),
        *("rdzv_id", "rdzv_backend", "rdzv_endpoint", "rdzv_conf"),
    }
)
_FLAGS = frozenset({"standalone"})
_TORCHRUN = ("torchrun", "python -m torch.distributed.run", "python3 -m torch.distributed.run")
# Variables of other schedulers that say the same as ours.
OF_SLURM = {
    "SLURM_NNODES": "NNODES",
    "SLURM_JOB_NUM_NODES": "NNODES",
    "SLURM_NODEID": "NODE_RANK",
    "SLURM_GPUS_ON_NODE": "NPROC_PER_NODE",
    "SLURM_JOB_ID": "CLUSTERWEB_JOB_ID",
    "SLURM_JOBID": "CLUSTERWEB_JOB_ID",
    "SLURM_CPUS_PER_TASK": "CLUSTERWEB_NUM_CPUS",
}
OF_SLURM_ARRAY = {
    "SLURM_ARRAY_TASK_ID": "CLUSTERWEB_ARRAY_INDEX",
    "SLURM_ARRAY_TASK_COUNT": "CLUSTERWEB_ARRAY_COUNT",
    "SLURM_ARRAY_TASK_MIN": "CLUSTERWEB_ARRAY_MIN",
    "SLURM_ARRAY_TASK_MAX": "CLUSTERWEB_ARRAY_MAX",
}
OF_SLURM_RANKS = {"SLURM_PROCID": "RANK", "SLURM_LOCALID": "LOCAL_RANK", "SLURM_NTASKS": "WORLD_SIZE"}
OF_SLURM_SERVERS = {"SLURM_PROCID": "NODE_RANK", "SLURM_NTASKS": "NNODES"}
OF_SKYPILOT = {
    "SKYPILOT_NODE_RANK": "NODE_RANK",
    "SKYPILOT_NUM_NODES": "NNODES",
    "SKYPILOT_NUM_GPUS_PER_NODE": "NPROC_PER_NODE",
}
OF_DSTACK = {
    "DSTACK_NODE_RANK": "NODE_RANK",
    "DSTACK_NODES_NUM": "NNODES",
    "DSTACK_GPUS_PER_NODE": "NPROC_PER_NODE",
    "DSTACK_GPUS_NUM": "WORLD_SIZE",
    "DSTACK_MASTER_NODE_IP": "MASTER_ADDR",
}
_OTHERS = re.compile(r"\b(?:SLURM|SKYPILOT|DSTACK)_[A-Z_]+")
_ACTIVATE = re.compile(r"(?:source|\.)\s+(\S+)/bin/activate\b")
_HOME = ("~", "$HOME", "${HOME}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A command of the script, with the lines that a backslash joins to it."""

    number: int
    text: str

    @property
    def words(self) -> list[str]:
        """Return its words as they stand; quotes are kept. Empty for what is no plain command."""
        try:
            return shlex.split(self.text.replace("\\\n", " "), posix=False)
        except ValueError:  # a quote without its end
            return []

    @property
    def source(self) -> str:
        """Return how the list of what did not map names it."""
        return f"line {self.number}: {' '.join(self.text.replace(chr(92), ' ').split())[:120]}"


def has_srun(text: str) -> bool:
    """Return whether a batch script starts a program on all its servers."""
    return any(line.words[:1] == ["srun"] for line in _lines(text))


def script_told(made: Translation, text: str, *, per: LaunchPer, names: Mapping[str, str]) -> str:
    """Return the script with the lines that start ranks rewritten; list what means something else, or nothing, here.

    Args:
        made: Gets the list.
        text: The script.
        per: For what one process of it is started.
        names: Our names of another scheduler's variables.
    """
    ending = "\n" if text.endswith("\n") else ""
    return "\n".join(_told(made, line, per, names) for line in _lines(text)) + ending


def _lines(text: str) -> list[_Line]:
    """Return the commands in their order; only what starts ranks is joined over several lines."""
    found: list[_Line] = []
    raw = text.removesuffix("\n").split("\n")
    at = 0
    while at < len(raw):
        end = at
        if raw[at].lstrip().startswith(("srun", *_TORCHRUN)):
            while raw[end].endswith("\\") and end + 1 < len(raw):
                end += 1
        found.append(_Line(number=at + 1, text="\n".join(raw[at : end + 1])))
        at = end + 1
    return found


def _told(made: Translation, line: _Line, per: LaunchPer, names: Mapping[str, str]) -> str:
    text = line.text
    if text.lstrip().startswith("#"):
        return text
    indent = text[: len(text) - len(text.lstrip())]
    words = line.words
    if words[:1] == ["srun"]:
        words = _after_srun(made, line, words, per)
        text = indent + " ".join(words)
    if per is LaunchPer.SERVER and " ".join(words).startswith(_TORCHRUN):
        kept = _without_places(made, line, words)
        text = text if kept == words else indent + " ".join(kept)
    text = _renamed(text, names)
    for found, why in _WHY:
        if found(text):
            made.skip(line.source, why)
    for name in dict.fromkeys(_OTHERS.findall(text)):
        made.skip(f"line {line.number}: {name}", "It is not set here. See the table of variables under Launch.")
    return text


def _after_srun(made: Translation, line: _Line, words: list[str], per: LaunchPer) -> list[str]:
    """Return the program that srun starts, and say that the script as a whole is started there."""
    left, options = words[1:], []
    while left and left[0].startswith("-"):
        taken = 2 if left[0] in _SRUN_VALUES else 1
        options += left[:taken]
        left = left[taken:]
    starts = {LaunchPer.JOB: "once", LaunchPer.SERVER: "once on each server", LaunchPer.GPU: "once for every GPU"}[per]
    dropped = f" Its options ({' '.join(options)[:80]}) are left out." if options else ""
    made.skip(line.source, f"srun is left out: the whole script is started {starts}, every line of it.{dropped}")
    return left


def _without_places(made: Translation, line: _Line, words: list[str]) -> list[str]:
    """Return the words of torchrun without those that say where its ranks are."""
    first = 1 if words[0] == "torchrun" else 3
    kept, dropped, at = words[:first], [], first
    while at < len(words) and words[at].startswith("-"):
        name, equals, _ = words[at].lstrip("-").partition("=")
        name = name.replace("-", "_")
        taken = 1 if equals or name in _FLAGS or at + 1 == len(words) or words[at + 1].startswith("-") else 2
        if name in _PLACES | _FLAGS:
            dropped += words[at : at + taken]
        elif name in {"m", "module", "no_python"}:
            break
        else:
            kept += words[at : at + taken]
        at += taken
    if dropped:
        why = (
            f"{' '.join(dropped)[:160]} left out: torchrun is told its servers and GPUs by variables (PET_NNODES ...)."
        )
        made.skip(line.source, why)
    return kept + words[at:]


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        text = re.sub(rf"\b{old}\b", new, text)
    return text


def _goes_home(text: str) -> bool:
    found = _ACTIVATE.search(text)
    return found is not None and found[1].strip("\"'").startswith(_HOME)


def _begins(*programs: str) -> Callable[[str], bool]:
    return lambda text: text.strip().split(" ", 1)[0] in programs


# What of a line means nothing here, and what to do.
_WHY: tuple[tuple[Callable[[str], bool], str], ...] = (
    (
        _begins("mpirun", "mpiexec"),
        "It starts ranks on other servers by ssh, which jobs do not have. On one server it works, with "
        "--hostfile $CLUSTERWEB_HOSTFILE.",
    ),
    (_begins("module", "ml"), "Modules are not loaded; name the program with its path."),
    (
        lambda text: "conda activate" in text,
        "The shell of a job has no conda; name the program by its path in the environment.",
    ),
    (
        _goes_home,
        "The home of a job is a folder of its own. Name the environment by its full path, in a folder that jobs can "
        "read.",
    ),
    (
        lambda text: "scontrol" in text,
        "scontrol is not there. MASTER_ADDR and MASTER_PORT are set already: leave the line out.",
    ),
)
