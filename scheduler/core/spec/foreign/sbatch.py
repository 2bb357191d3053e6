"""A batch script of Slurm: its ``#SBATCH`` lines become fields, the script itself becomes a file that bash runs."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.core.spec.array import read_array
from scheduler.core.spec.foreign.script_lines import (
    OF_SLURM,
    OF_SLURM_ARRAY,
    OF_SLURM_RANKS,
    OF_SLURM_SERVERS,
    has_srun,
    script_told,
)
from scheduler.core.spec.foreign.translation import Translation, plain_name
from scheduler.core.spec.launch import LaunchPer
from scheduler.core.spec.limits import STOP_SIGNALS
from scheduler.core.spec.reading import FieldReader
from scheduler.core.spec.units import format_duration

SCRIPT = "job.sh"
_WRONG = "=wrong"  # in place of the name of an option, which has no "="
_SHORT = {
    "J": "job-name", "G": "gpus", "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "t": "time", "p": "partition",
    "A": "account", "o": "output", "e": "error", "D": "chdir", "a": "array", "d": "dependency", "C": "constraint",
    "w": "nodelist", "x": "exclude", "q": "qos", "H": "hold", "L": "licenses", "i": "input",
}  # fmt: skip
# They take no value: a word after one of them belongs to none.
_FLAGS = frozenset({"requeue", "no-requeue", "hold", "exclusive", "contiguous", "overcommit", "oversubscribe"})
_SIGNAL_NUMBERS = {"1": "HUP", "2": "INT", "10": "USR1", "12": "USR2", "15": "TERM"}
_GPU_TYPE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MEGABYTES = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}

# Options that change nothing here or are done otherwise, and what to say about them.
_ELSEWHERE = {
    "partition": "Choose a queue instead; a queue has a quota, not a set of servers.",
    "account": "The queue says who pays.",
    "qos": "The queue and schedule.priority say how urgent it is.",
    "output": "Clusterweb keeps the log and shows it live.",
    "error": "Errors go into the same log as the output.",
    "mail-user": "Set notifications on your own page.",
    "mail-type": "Set notifications on your own page.",
    "chdir": "A job runs in a directory of its own; use absolute paths for data.",
    "constraint": "Servers are chosen by what the job needs, not by features.",
    "nodelist": "Servers are chosen by the scheduler.",
    "exclude": "Servers are chosen by the scheduler; ask an admin to drain a bad one.",
    "exclusive": "A job has its GPUs, cores and memory for itself, not the whole server.",
}


_MEMORY_AUTO = "Here it is auto, as much as the job is found to need; name an amount if it needs more."

# Kinds of --dependency that have a word here, and why the others have none.
_UNTIL = {"afterok": "completed", "afternotok": "failed", "afterany": "ended"}
_NO_DEPENDENCY = {
    "after": "A job waits until others have ended, not until they have begun.",
    "aftercorr": "A job of an array waits for the whole other array: depends_on: [A-...: completed].",
    "singleton": "Jobs of one name do not wait for each other; name the earlier one under depends_on.",
}


@dataclass(slots=True)
class _Request:
    """What the options ask for together."""

    nodes: int = 1
    tasks: int | None = None
    tasks_per_node: int | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    gpus_per_task: int | None = None
    cpus_per_task: int | None = None
    cpus_per_gpu: int | None = None
    mb_per_node: float | None = None
    mb_per_gpu: float | None = None
    mb_per_cpu: float | None = None

    @property
    def all_tasks(self) -> int:
        """Return the tasks on all servers; one on each when not said."""
        if self.tasks is not None:
            return self.tasks
        return (self.tasks_per_node or 1) * self.nodes


def from_sbatch(text: str, *, queue: str) -> Translation:
    """Return the spec that does what the script asks Slurm for."""
    made = Translation()
    made.spec |= {"name": "sbatch-job", "queue": queue, "command": ["bash", SCRIPT], "files": {SCRIPT: text}}
    asked = _Request()
    for option, value, line in _options(text):
        try:
            _read(made, asked, option, value, line)
        except ValueError:
            made.skip(line, f"{value!r} is not understood.")
    if "max_duration" not in made.spec.get("schedule", {}):
        made.spec.pop("schedule", None)  # without --time there is no end to be warned of
    gpus = _resources(made, asked)
    per = _launch(made, asked, gpus=gpus, starts_all=has_srun(text))
    names = OF_SLURM | (OF_SLURM_RANKS if per is LaunchPer.GPU else OF_SLURM_SERVERS)
    names = (names if per is not LaunchPer.JOB else {}) | (OF_SLURM_ARRAY if "array" in made.spec else {})
    told = script_told(made, text, per=per, names=names)
    made.spec["files"] = {SCRIPT: told}
    return made


def _launch(made: Translation, asked: _Request, *, gpus: int, starts_all: bool) -> LaunchPer:
    """Say how often the script is started, by its servers and tasks; return it."""
    tasks, nodes = asked.all_tasks, asked.nodes
    if nodes > 1:
        made.put("resources", "max_servers", nodes)
        made.skip(
            f"--nodes={nodes}", f"At most {nodes} servers: fewer where its GPUs fit on fewer. NNODES says how many."
        )
    if not starts_all:
        per = LaunchPer.SERVER if nodes > 1 else LaunchPer.JOB
        if nodes > 1:
            made.skip(
                "a script without srun",
                "Slurm starts it on its first server alone; here it is started on each. Where NODE_RANK is 0 it is the "
                "first.",
            )
        elif tasks > 1:
            made.skip(f"{tasks} tasks", "The script starts none of them by srun; it is started once.")
    elif tasks == nodes:
        per = LaunchPer.SERVER if nodes > 1 else LaunchPer.JOB
    elif tasks == gpus:
        per = LaunchPer.GPU
    else:
        per = LaunchPer.SERVER if nodes > 1 else LaunchPer.JOB
        why = f"A job starts once on each server or once for every GPU ({gpus}); set launch.per. It is {per.value} now."
        made.skip(f"{tasks} tasks on {nodes} {'server' if nodes == 1 else 'servers'}", why)
    made.put("launch", "per", per.value)
    return per


def _options(text: str) -> list[tuple[str, str, str]]:
    """Return (long name, value, line) of every option; Slurm stops at the first command.

    What is none stands under the name ``_WRONG``, with the reason as its value.
    """
    found = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            break
        if not stripped.startswith("#SBATCH"):
            continue
        try:
            words = shlex.split(stripped.removeprefix("#SBATCH"), comments=True)
        except ValueError:
            found.append((_WRONG, "A quote is opened and not closed.", stripped))
            continue
        if left := _without_dash(words):
            found.append((_WRONG, f"{left!r} is no option: those begin with a dash.", stripped))
        while words:
            word = words.pop(0)
            if word.startswith("--"):
                name, has_value, value = word[2:].partition("=")
            else:
                name, value = _SHORT.get(word[1:2], word[1:2]), word[2:].removeprefix("=")
                has_value = value
            takes_next = words and (not words[0].startswith("-") or _is_number(words[0][1:]))
            if takes_next and not has_value and name not in _FLAGS:
                value = words.pop(0)
            found.append((name, value, stripped))
            left = _without_dash(words)
            if left and name in _FLAGS:
                found.append((_WRONG, f"{left!r} is left over: --{name} takes no value.", stripped))
            elif left:
                option = f"--{name}=" if word.startswith("--") else f"{word[:2]} "
                quoted = f"{option}{shlex.quote(f'{value} {left}')}"
                why = f"{left!r} is left over. Put a value with blanks in quotes: {quoted}"
                found.append((_WRONG, why, stripped))
    return found


def _without_dash(words: list[str]) -> str:
    """Take the words before the next option off; return them."""
    taken = []
    while words and not words[0].startswith("-"):
        taken.append(words.pop(0))
    return " ".join(taken)


def _read(made: Translation, asked: _Request, option: str, value: str, line: str) -> None:
    number: dict[str, str] = {
        "nodes": "nodes", "ntasks": "tasks", "ntasks-per-node": "tasks_per_node",
        "cpus-per-task": "cpus_per_task", "cpus-per-gpu": "cpus_per_gpu",
    }  # fmt: skip
    gpus = {"gpus": "gpus", "gpus-per-node": "gpus_per_node", "gpus-per-task": "gpus_per_task"}
    memory = {"mem": "mb_per_node", "mem-per-gpu": "mb_per_gpu", "mem-per-cpu": "mb_per_cpu"}
    if option == _WRONG:
        made.skip(line, value)
    elif option in number:
        count, dash, _ = value.partition("-") if option == "nodes" else (value, "", "")
        if _is_number(count) and int(count):
            setattr(asked, number[option], int(count))
            if dash:
                made.skip(line, f"A job has a fixed size, no range: {count} is taken.")
        else:
            made.skip(line, f"--{option} must be a whole number from 1 on, not {value!r}. It is left out.")
    elif option in gpus:
        setattr(asked, gpus[option], _gpus(made, f"--{option}", value.split(","), line))
    elif option == "gres":
        parts = value.split(",")
        for part in parts:
            if part.partition(":")[0] != "gpu":
                made.skip(line, f"There is no resource {part} here.")
        if named := [part.partition(":")[2] or "1" for part in parts if part.partition(":")[0] == "gpu"]:
            asked.gpus_per_node = _gpus(made, "--gres=gpu", named, line)
    elif option in memory:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", value.upper())
        if found is None:
            raise ValueError(value)
        if option == "mem" and not float(found[1]):
            made.skip(line, f"To Slurm this is all memory of a server. {_MEMORY_AUTO}")
        setattr(asked, memory[option], float(found[1]) * _MEGABYTES[found[2]])
    elif not option:
        raise ValueError(value)
    elif option in _DIRECT:
        _DIRECT[option](made, value)
    else:
        made.skip(line, _ELSEWHERE.get(option, f"There is nothing like --{option} here."))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _gpus(made: Translation, option: str, parts: Sequence[str], line: str) -> int | None:
    """Return the sum of ``[type:]number``, where a type alone is one; None where one of them cannot be."""
    total = 0
    for part in parts:
        kind, colon, count = part.rpartition(":")
        if not colon and not _is_number(count) and _GPU_TYPE.fullmatch(count):
            kind, count = count, "1"
        if not _is_number(count) or (kind and not _GPU_TYPE.fullmatch(kind)):
            made.skip(line, f"{option} must be a whole number from 0 on, not {part!r}. It is left out.")
            return None
        if kind:
            made.skip(line, f"Servers are not chosen by the type of their GPUs ({kind}).")
        total += int(count)
    return total


def _resources(made: Translation, asked: _Request) -> int:
    """Ask for the sum over all servers; return its GPUs."""
    gpus = asked.gpus
    if gpus is None and asked.gpus_per_node is not None:
        gpus = asked.gpus_per_node * asked.nodes
    if gpus is None:
        gpus = (asked.gpus_per_task or 0) * asked.all_tasks
    made.put_gpus(gpus)
    gpus = max(1, gpus)
    cpus = (asked.cpus_per_gpu or 0) * gpus or (asked.cpus_per_task or 0) * asked.all_tasks
    made.put("resources", "cpus", cpus or "auto")
    megabytes = (
        (asked.mb_per_node or 0) * asked.nodes
        or (asked.mb_per_gpu or 0) * gpus
        or (asked.mb_per_cpu or 0) * max(1, cpus)
    )
    made.put("resources", "memory", f"{round(megabytes)}MiB" if megabytes else "auto")
    return gpus


def _time(made: Translation, value: str) -> None:
    """Read minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    days, dash, rest = value.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if len(parts) > 3:
        raise ValueError(value)
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, minutes, seconds = 0, parts[0], (parts[1] if len(parts) == 2 else 0)
    total_s = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    if total_s <= 0:
        raise ValueError(value)
    made.put("schedule", "max_duration", format_duration(total_s))


def _signal(made: Translation, value: str) -> None:
    """Read ``[B:]USR1@120``: so long before its end the job wants to be warned."""
    name, _, before = value.rpartition(":")[2].upper().removeprefix("SIG").partition("@")
    name, before = _SIGNAL_NUMBERS.get(name, name), format_duration(int(before or 60))
    if name in STOP_SIGNALS:
        made.put("checkpoint", "signal", name)
    elif name:
        made.skip(f"--signal={value}", f"It gets TERM: {name} is none of {', '.join(STOP_SIGNALS)}.")
    made.put("checkpoint", "grace", before)
    made.put("schedule", "warn_before", before)


def _export(made: Translation, value: str) -> None:
    for part in value.split(","):
        name, equals, content = part.partition("=")
        if equals:
            made.put("env", name, content)
        elif name not in {"ALL", "NONE"}:
            made.skip(f"--export={name}", "Your shell's environment is not sent; name the value under env.")


def _array(made: Translation, value: str) -> None:
    reader = FieldReader()
    array = read_array(reader, value)
    if array is None:
        made.skip(f"--array={value}", reader.errors[0].detail)
    else:
        made.spec["array"] = array.text


def _dependency(made: Translation, value: str) -> None:
    """Say what ``afterok:12:13,afterany:14`` is here: the numbers are those of jobs of Slurm, not of ours."""
    for part in re.split(r"[,?]", value):
        kind, _, jobs = part.partition(":")
        until = _UNTIL.get(kind)
        if until is None:
            made.skip(f"--dependency={part}", _NO_DEPENDENCY.get(kind, f"There is nothing like {kind} here."))
            continue
        names = ", ".join(f"J-...: {until}" for _ in jobs.split(":"))
        why = f"The numbers are those of Slurm. Submit that job here too, then write depends_on: [{names}]."
        made.skip(f"--dependency={part}", why)
    if "?" in value:
        made.skip(f"--dependency={value}", "A job waits for all that it names, not for one of them.")


def _name(made: Translation, value: str) -> None:
    made.spec["name"] = plain_name(value, otherwise="sbatch-job")


_DIRECT: dict[str, Callable[[Translation, str], None]] = {
    "job-name": _name,
    "time": _time,
    "signal": _signal,
    "export": _export,
    "array": _array,
    "dependency": _dependency,
    "requeue": lambda made, value: None,  # what a preempted or failed job does anyway
    "no-requeue": lambda made, value: made.put("retry", "max", 0),
}
