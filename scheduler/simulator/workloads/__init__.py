"""The registry of generated workloads, one file each; the same seed gives the same jobs on every machine.

As library calls: ``philly_like``, ``synergy_split``, ``elastic``, ``searches``. By text:
``generate:philly?jobs=1000&gpus=128&load=0.9&seed=1``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args
from urllib.parse import parse_qsl

from scheduler.simulator.jobs import SimJob
from scheduler.simulator.speeds.measured import afs_profiles
from scheduler.simulator.speeds.profiles import SYNERGY_CPUS_PER_GPU, synergy_profiles
from scheduler.simulator.workloads.elastic import elastic
from scheduler.simulator.workloads.philly import Kind, philly_like, philly_quotas
from scheduler.simulator.workloads.search import CONFIGURATIONS, LENGTH_S, searches
from scheduler.simulator.workloads.synergy import synergy_split

__all__ = [
    "GENERATORS",
    "PREFIX",
    "Generated",
    "elastic",
    "generate",
    "philly_like",
    "philly_quotas",
    "searches",
    "synergy_split",
]

PREFIX = "generate:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A generated workload.

    Attributes:
        jobs: Sorted by arrival.
        quotas: GPUs of each queue.
    """

    jobs: list[SimJob]
    quotas: tuple[int, ...]


class GeneratorOptions:
    """The options behind the question mark; each is read once, and unread ones are refused."""

    def __init__(self, text: str, defaults: Mapping[str, str]) -> None:
        pairs = parse_qsl(text, keep_blank_values=True)
        if len({name for name, _ in pairs}) != len(pairs) or (text and not pairs):
            raise ValueError(f"options are name=value with & between them, each once, not {text!r}")
        self._values = {**defaults, **dict(pairs)}

    def has(self, name: str) -> bool:
        """Return whether an option was given and is not read yet."""
        return name in self._values

    def whole(self, name: str, otherwise: int | None = None) -> int:
        """Return a whole number of at least 0."""
        text = self._values.pop(name, None)
        if text is None:
            if otherwise is None:
                raise ValueError(f"the option {name} is needed, as in {name}=128")
            return otherwise
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise ValueError(f"{name} is a whole number of at least 0, not {text!r}")
        return int(text)

    def number(self, name: str, otherwise: float) -> float:
        """Return a finite number."""
        text = self._values.pop(name, None)
        try:
            value = otherwise if text is None else float(text)
        except ValueError:
            value = float("nan")
        if not abs(value) < float("inf"):
            raise ValueError(f"{name} is a number, not {text!r}")
        return value

    def flag(self, name: str, *, otherwise: bool) -> bool:
        """Return whether it is 1; 0 is the other value."""
        return self.word(name, str(int(otherwise)), ("0", "1")) == "1"

    def word(self, name: str, otherwise: str, words: tuple[str, ...]) -> str:
        """Return one of the words."""
        text = self._values.pop(name, otherwise)
        if text not in words:
            raise ValueError(f"{name} is {' or '.join(words)}, not {text!r}")
        return text

    def done(self) -> None:
        """Refuse options that were not read."""
        if self._values:
            raise ValueError(f"no option {', '.join(self._values)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """One kind of generated workload.

    Attributes:
        options: What it takes, for people.
        make: Makes it; the folder holds the profiles of models.
    """

    options: str
    make: Callable[[GeneratorOptions, Path], Generated] = field(repr=False)


def _philly(options: GeneratorOptions, profiles: Path) -> Generated:
    gpus, queues = options.whole("gpus"), options.whole("queues", 1)
    kinds: tuple[Kind, ...] = get_args(Kind)
    kind = options.word("kind", kinds[0], kinds)
    if options.has("days") and options.has("jobs"):
        raise ValueError("give jobs or days, not both")
    jobs = philly_like(
        num_jobs=options.whole("jobs", 1000),
        days=options.number("days", 0.0) if options.has("days") else None,
        cluster_gpus=gpus,
        load=options.number("load", 0.9),
        seed=options.whole("seed", 0),
        kind=next(known for known in kinds if known == kind),
        short_share=options.number("short", 0.0),
        diurnal=options.flag("diurnal", otherwise=True),
        num_queues=queues,
        failures=options.flag("failures", otherwise=False),
    )
    return Generated(jobs=jobs, quotas=tuple(philly_quotas(cluster_gpus=gpus, num_queues=queues)))


def _synergy(options: GeneratorOptions, profiles: Path) -> Generated:
    gpus = options.whole("gpus")
    mix = options.word("mix", "20,70,10", ("20,70,10", "33,33,33", "50,0,50", "60,30,10"))
    shares = zip(("image", "language", "speech"), mix.split(","), strict=True)
    jobs = synergy_split(
        num_jobs=options.whole("jobs", 1000),
        cluster_gpus=gpus,
        profiles=synergy_profiles(profiles, cpus_per_gpu=SYNERGY_CPUS_PER_GPU),
        load=options.number("load", 0.9),
        seed=options.whole("seed", 0),
        mix={name: float(share) for name, share in shares},
        gangs="mixed" if options.flag("mixed", otherwise=False) else "single",
        static=options.flag("static", otherwise=False),
    )
    return Generated(jobs=jobs, quotas=(gpus,))


def _elastic(options: GeneratorOptions, profiles: Path) -> Generated:
    gpus = options.whole("gpus")
    measured = options.word("curves", "measured", ("measured", "generic")) == "measured"
    jobs = elastic(
        num_jobs=options.whole("jobs", 1000),
        cluster_gpus=gpus,
        curves=afs_profiles(profiles) if measured else None,
        load=options.number("load", 0.9),
        seed=options.whole("seed", 0),
        diurnal=options.flag("diurnal", otherwise=True),
    )
    return Generated(jobs=jobs, quotas=(gpus,))


def _search(options: GeneratorOptions, profiles: Path) -> Generated:
    gpus = options.whole("gpus")
    jobs = searches(
        num_searches=options.whole("searches", 1),
        cluster_gpus=gpus,
        configurations=options.whole("configurations", CONFIGURATIONS),
        length_s=options.number("length_s", LENGTH_S),
        load=options.number("load", 0.9),
        seed=options.whole("seed", 0),
    )
    return Generated(jobs=jobs, quotas=(gpus,))


GENERATORS: dict[str, Generator] = {
    "philly": Generator(
        options="gpus, jobs or days, load, seed, kind (simple, empirical, wide), short, diurnal, queues, failures",
        make=_philly,
    ),
    "synergy": Generator(options="gpus, jobs, load, seed, mix (20,70,10 ...), mixed, static", make=_synergy),
    "elastic": Generator(options="gpus, jobs, load, seed, curves (measured, generic), diurnal", make=_elastic),
    "search": Generator(options="gpus, searches, configurations, length_s, load, seed", make=_search),
}


def generate(text: str, *, profiles: Path, seed: int = 0, cluster_gpus: int | None = None) -> Generated:
    """Return the workload that a text such as ``generate:philly?jobs=1000&gpus=128`` describes.

    Args:
        text: ``generate:``, name, and options after a question mark.
        profiles: Folder with the profiles of models.
        seed: Used where the text gives none.
        cluster_gpus: GPUs of the cluster, used where the text gives none.

    Raises:
        ValueError: If the text names no generator, or an option is missing, unknown or out of range.
    """
    name, _, rest = text.removeprefix(PREFIX).partition("?")
    if name not in GENERATORS:
        raise ValueError(f"no generator {name!r}; there are {', '.join(GENERATORS)}")
    defaults = {"seed": str(seed)} | ({} if cluster_gpus is None else {"gpus": str(cluster_gpus)})
    options = GeneratorOptions(rest, defaults)
    generated = GENERATORS[name].make(options, profiles)
    options.done()
    return generated
