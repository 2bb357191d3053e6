"""The arguments of ``manage.py simulate``, in groups as its help shows them."""

import math
from argparse import Action, ArgumentParser
from pathlib import Path
from typing import cast

from django.core.management.base import CommandParser

from scheduler.choices import Choice, choices
from scheduler.introspection import INTROSPECTIONS
from scheduler.management.argument_types import model_mix, number, round_length, seed_list, whole
from scheduler.options import Parameter
from scheduler.simulator.state.costs import Manager
from scheduler.simulator.study.cluster import MOST_SERVERS


class ShowChoices(Action):
    """Print every choice with its options, and end."""

    def __call__(self, parser: ArgumentParser, *_: object) -> None:
        print(choices_text())  # noqa: T201  (what the flag is for)
        parser.exit()


def choices_text() -> str:
    """Return every policy, locality, mechanism and introspection with its options, ranges and defaults."""
    lines = []
    for kind, found in choices().items():
        lines.append(f"{kind}:")
        for choice in cast("list[Choice]", found):  # a TypedDict's items are objects to mypy
            lines.append(f"  {choice['name']}: {choice['help']}")
            lines += [f"    {option_text(option)}" for option in choice["parameters"]]
    return "\n".join(lines)


def option_text(option: Parameter) -> str:
    """Return one option in a line: ``min_run_s=60 (number, 0 or more): what it does``."""
    default = option["default"]
    value = "null" if default is None else ",".join(map(str, default)) if isinstance(default, list) else str(default)
    least, most = option["minimum"], option["maximum"]
    limits = " or ".join(option["choices"]) or option["type"]
    if least is not None or most is not None:
        limits += f", {f'{least:g}' if least is not None else ''} to {f'{most:g}' if most is not None else 'any'}"
    return f"{option['name']}={value.lower() if isinstance(default, bool) else value} ({limits}): {option['help']}"


def add_scheduling(parser: CommandParser) -> None:
    """Add policy, locality, mechanism, introspection, rounds, costs and arms."""
    known = choices()
    policies, localities, mechanisms = (
        ", ".join(choice["name"] for choice in kind)
        for kind in (known["policies"], known["localities"], known["mechanisms"])
    )
    group = parser.add_argument_group("scheduling", "Options of each choice: --choices")
    group.add_argument("--choices", action=ShowChoices, nargs=0, help="list every choice with its options, and end")
    group.add_argument("--policy", metavar="P", help=f"which jobs run first, or with how many GPUs: {policies}")
    group.add_argument(
        "--locality",
        metavar="L",
        default="consolidate",
        help=f"which servers: {localities} (default: %(default)s)",
    )
    group.add_argument(
        "--mechanism",
        metavar="M",
        default="proportional",
        help=f"how cores and memory are given: {mechanisms} (default: %(default)s)",
    )
    for kind in ("policy", "locality", "mechanism"):
        group.add_argument(
            f"--{kind}-option",
            metavar="K=V",
            action="append",
            default=[],
            help=f"an option of the {kind}; may stand several times",
        )
    group.add_argument(
        "--introspection",
        metavar="NAME",
        action="append",
        default=[],
        choices=list(INTROSPECTIONS),
        help="what is tried on running jobs, measured and taken back; may stand several times: %(choices)s",
    )
    group.add_argument(
        "--introspection-option",
        metavar="NAME.K=V",
        action="append",
        default=[],
        help="an option of an introspection, such as slicing.quantum_s=30; may stand several times",
    )
    group.add_argument(
        "--round-s",
        metavar="S",
        type=round_length,
        default=300.0,
        help="seconds between rounds, or none for a round whenever something changes (default: 300)",
    )
    group.add_argument(
        "--min-run-s",
        metavar="S",
        type=number(least=0),
        default=0.0,
        help="how long a job runs before the order of the policy may stop it, seconds (default: 0)",
    )
    group.add_argument(
        "--restart-s",
        metavar="S",
        type=number(least=0),
        default=0.0,
        help="what every start of a job after its first costs, seconds (default: 0)",
    )
    group.add_argument(
        "--leave-s",
        metavar="S",
        type=number(least=0),
        default=0.0,
        help="how long a job that is stopped still keeps its GPUs from the next one, seconds (default: 0)",
    )
    group.add_argument(
        "--costs",
        metavar="M",
        choices=list(Manager),
        help="what starts and resizes cost, by how jobs are reconfigured, instead of --restart-s: %(choices)s",
    )
    group.add_argument(
        "--checkpoint-s",
        metavar="S",
        type=number(above=0),
        default=math.inf,
        help="run time between two checkpoints of a job; a failure loses the work since the last (default: none before "
        "the end)",
    )
    group.add_argument(
        "--retries",
        choices=["rules", "at-once"],
        default="at-once",
        help="whether a job that failed joins the line again at once, or by the rules for its cause: after a pause, or "
        "not at all (default: at-once)",
    )
    group.add_argument(
        "--compare",
        metavar="ARMS",
        help='several ways side by side, "policy[:locality][+mechanism][+introspection]", split by commas: '
        '"fifo,srtf+tune"; what an arm leaves out is as given by the options above',
    )
    group.add_argument(
        "--workers",
        metavar="N",
        type=whole(least=1, most=1024),
        help="processes that share the arms and seeds (default: one for each core)",
    )


def add_cluster(parser: CommandParser) -> None:
    """Add servers and queues."""
    group = parser.add_argument_group("cluster", "All servers alike, or a file")
    group.add_argument("--servers", metavar="N", type=whole(least=1, most=MOST_SERVERS), help="servers (default: 16)")
    group.add_argument("--gpus", metavar="N", type=whole(least=1, most=1024), help="GPUs of each (default: 8)")
    group.add_argument("--cpus", metavar="N", type=number(above=0), help="cores of each (default: 24)")
    group.add_argument(
        "--memory-gb", metavar="GB", type=number(above=0), help="memory of each, 10^9 bytes (default: 500)"
    )
    group.add_argument(
        "--racks",
        metavar="N",
        type=whole(least=1, most=MOST_SERVERS),
        default=1,
        help="racks over which the servers stand, in order and evenly (default: 1)",
    )
    group.add_argument(
        "--cluster", metavar="FILE", type=Path, help="JSON or YAML with groups of servers, and queues with quotas"
    )
    group.add_argument(
        "--queues",
        choices=["one", "trace"],
        default="trace",
        help="one for each queue of the trace, with a quota in proportion to its GPU time, as on the what-if page; or "
        "one for all jobs (default: trace); a cluster file with queues decides instead",
    )


def add_workload(parser: CommandParser) -> None:
    """Add window, load, models and seeds of the jobs."""
    group = parser.add_argument_group("workload")
    group.add_argument(
        "--window",
        metavar="A:B",
        default="",
        help="only jobs submitted from A up to B: seconds of the trace, or dates such as 2026-01-05T12:30; "
        "either may be empty",
    )
    group.add_argument("--jobs", metavar="N", type=whole(least=1), help="only the first N jobs, of the window")
    group.add_argument(
        "--load",
        metavar="X",
        type=number(above=0),
        help="stretch the arrivals until the jobs ask for X times the GPU time there is, such as 1.1",
    )
    group.add_argument(
        "--mix",
        metavar="MIX",
        type=model_mix,
        help="models of jobs whose trace names none, drawn by --seed: shares of image, language, speech; none leaves "
        "them insensitive to cores and memory (default: image=20,language=70,speech=10, or none where the trace tells "
        "what jobs request, or servers are not alike or have less than 3 or more than 6 cores for each GPU)",
    )
    seeds = group.add_mutually_exclusive_group()
    seeds.add_argument(
        "--seed",
        metavar="S",
        type=seed_list,
        default=(0,),
        help="seed of models and of a generated workload; several with commas give means with 95 %% half-widths "
        "(default: 0)",
    )
    seeds.add_argument("--seeds", metavar="N", type=whole(least=1, most=1000), help="the seeds 0 to N-1")


def add_interruption(parser: CommandParser) -> None:
    """Add the end, and the files to interrupt a replay and go on."""
    group = parser.add_argument_group("interruption", "One --policy and one --seed, without introspection")
    group.add_argument(
        "--until",
        metavar="S",
        type=number(least=0),
        default=math.inf,
        help="end at this second of the trace (default: when all jobs have ended)",
    )
    group.add_argument(
        "--checkpoint", metavar="FILE", type=Path, help="write how far the replay is, now and then and at its end"
    )
    group.add_argument(
        "--save-every-s",
        metavar="S",
        type=number(above=0),
        default=60.0,
        help="CPU time after which --checkpoint is written again, seconds (default: 60)",
    )
    group.add_argument(
        "--continue",
        metavar="FILE",
        type=Path,
        help="begin with what --checkpoint wrote in a replay of the same jobs, cluster and options",
    )


def add_output(parser: CommandParser) -> None:
    """Add output files, and what is said and checked."""
    group = parser.add_argument_group("output", "A table goes to stdout. Columns: docs/simulator.md")
    group.add_argument(
        "--json", metavar="FILE", type=Path, help="the figures as JSON; - for stdout instead of the table"
    )
    group.add_argument("--records", metavar="FILE", type=Path, help="one row a job, .csv or .parquet")
    group.add_argument(
        "--reasons",
        action="store_true",
        help="for --records and left-over jobs: how long jobs waited for which reason; takes much longer",
    )
    group.add_argument("--series", metavar="FILE", type=Path, help="the cluster over time, .csv or .parquet")
    group.add_argument("--placements", metavar="FILE", type=Path, help="which job was where and when, .csv or .parquet")
    group.add_argument("--html", metavar="FILE", type=Path, help="a report in one file, for a browser, without network")
    group.add_argument(
        "--verbose", action="store_true", help="say on stderr how the rounds of each arm are planned, and why so"
    )
    group.add_argument(
        "--check",
        action="store_true",
        help="hold every round against the safety rules, and every tenth against one planned from scratch; say on "
        "stderr what was checked, and stop with status 3 at the first difference",
    )
