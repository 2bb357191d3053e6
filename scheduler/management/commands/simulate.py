"""Replay a workload on a cluster that need not exist: ``manage.py simulate TRACE --policy srtf``."""

from argparse import RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.operations.failures import RetryRules
from scheduler.management.simulate_arguments import (
    add_cluster,
    add_interruption,
    add_output,
    add_scheduling,
    add_workload,
)
from scheduler.management.simulation import Request, run_simulation
from scheduler.simulator.errors import BadInput
from scheduler.simulator.replay.saving import States
from scheduler.simulator.state.costs import Manager, ReconfigurationCosts
from scheduler.simulator.state.retries import ByRules
from scheduler.simulator.study.arms import Arm, parse_arms, parse_named_options, parse_options
from scheduler.simulator.study.cluster import GB, Cluster, ServerGroup
from scheduler.simulator.study.cluster_file import read_cluster
from scheduler.simulator.study.study import Study, Workload
from scheduler.simulator.traces import READERS
from scheduler.simulator.traces.errors import TraceError
from scheduler.simulator.workloads import GENERATORS

LEFT_OVER, BAD_INPUT, CHECK_FAILED, INTERRUPTED = 1, 2, 3, 130
# With --check, so many rounds are planned for one that is planned from scratch as well.
CHECK_EVERY = 10
SERVERS = {"servers": 16, "gpus": 8, "cpus": 24.0, "memory_gb": 500.0}

EXAMPLES = """
generated workloads, instead of a file:
{generators}

examples:
  sacct -a -X -P -S 2026-01-01 -o JobID,Submit,Start,ElapsedRaw,State,AllocTRES,User,Account > jobs.txt
  manage.py simulate jobs.txt --compare fifo,las,srtf,fifo+tune --html report.html
  manage.py simulate trace.csv --policy las --policy-option queue_limits_gpu_s=3600,36000
  manage.py simulate "generate:philly?jobs=2000&load=1.1" --policy srtf --seeds 5

exit status: 0 all jobs finished, 1 jobs were left over, 2 an argument or the trace cannot be used,
3 --check found a defect.
More: docs/simulator.md
"""


class Formatter(RawDescriptionHelpFormatter):
    """Keeps the line breaks of the examples."""


class Command(BaseCommand):
    """Parse the arguments, call ``run_simulation``, map errors to exit codes. Touches no database."""

    help = (
        "Replay the jobs of TRACE through the scheduler on a cluster of your choice, and say\nhow long they would have "
        "waited and run. The decisions are those of the live scheduler.\nNeeds no database and no GPU."
    )
    requires_system_checks: list[str] = []
    suppressed_base_arguments = {
        "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color",
        "--skip-checks",
    }  # fmt: skip

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:  # as Django's
        """Return the parser with examples below the options."""
        generators = "\n".join(f"  generate:{name}?  {made.options}" for name, made in GENERATORS.items())
        return super().create_parser(
            prog_name,
            subcommand,
            usage="manage.py simulate TRACE (--policy P | --compare ARMS) [option ...]",
            formatter_class=Formatter,
            epilog=EXAMPLES.format(generators=generators),
            **kwargs,
        )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "trace",
            metavar="TRACE",
            help="file with the jobs, plain or gzip, or a generated workload (below)",
        )
        parser.add_argument("--format", choices=list(READERS), help="format of TRACE (default: told from its header)")
        add_scheduling(parser)
        add_cluster(parser)
        add_workload(parser)
        add_interruption(parser)
        add_output(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            reasons = run_simulation(request_of(options), out=self.stdout, notes=self.stderr)
        except (BadInput, TraceError) as error:
            raise CommandError(str(error), returncode=BAD_INPUT) from None
        except PlanInvariantError as error:
            if not options["check"]:
                raise
            raise CommandError(f"--check: {error}.", returncode=CHECK_FAILED) from None
        except KeyboardInterrupt:
            raise CommandError(_stopped(options["checkpoint"]), returncode=INTERRUPTED) from None
        if reasons:
            raise CommandError(reasons, returncode=LEFT_OVER)


def _stopped(checkpoint: Path | None) -> str:
    if checkpoint is None or not checkpoint.exists():
        return "Stopped. Nothing was written."
    return f"Stopped. --continue {checkpoint} goes on from what was written there last."


def request_of(options: dict[str, Any]) -> Request:
    """Return what the arguments ask for.

    Raises:
        BadInput: If they do not go together.
    """
    if options["policy"] is None and not options["compare"]:
        raise BadInput("--policy or --compare is needed, such as --policy srtf.")
    base = Arm(
        policy=options["policy"] or "",
        locality=options["locality"],
        mechanism=options["mechanism"],
        introspection=tuple(options["introspection"]),
        **{
            f"{kind}_options": parse_options(options[f"{kind}_option"], flag=f"--{kind}-option")
            for kind in ("policy", "locality", "mechanism")
        },
        introspection_options=parse_named_options(options["introspection_option"], flag="--introspection-option"),
        min_run_s=options["min_run_s"],
    )
    workload = Workload(
        source=options["trace"],
        format=options["format"],
        window=options["window"],
        num_jobs=options["jobs"],
        load=options["load"],
        mix=options["mix"],
    )
    if options["costs"] and options["restart_s"]:
        raise BadInput("--costs and --restart-s say the same thing: give one of them.")
    study = Study(
        workload=workload,
        cluster=cluster_of(options),
        servers_of_trace=options["cluster"] is None and all(options[name] is None for name in SERVERS),
        one_queue=options["queues"] == "one",
        round_s=options["round_s"],
        restart_s=options["restart_s"],
        leave_s=options["leave_s"],
        checkpoint_s=options["checkpoint_s"],
        costs=ReconfigurationCosts.measured(Manager(options["costs"])) if options["costs"] else None,
        retries=ByRules(rules=RetryRules()) if options["retries"] == "rules" else None,
        until_s=options["until"],
        keep_reasons=options["reasons"],
        check_every=CHECK_EVERY if options["check"] else 0,
    )
    states = States(
        save_to=options["checkpoint"], save_every_s=options["save_every_s"], continue_from=options["continue"]
    )
    files = {name: options[name] for name in ("json", "records", "series", "placements", "html")}
    seeds = tuple(range(options["seeds"])) if options["seeds"] else options["seed"]
    arms = parse_arms(options["compare"], base) if options["compare"] else [base]
    return Request(
        study=study,
        arms=arms,
        seeds=seeds,
        workers=options["workers"],
        states=states,
        verbose=options["verbose"],
        **files,
    )


def cluster_of(options: dict[str, Any]) -> Cluster:
    """Return the cluster of a file, or of alike servers."""
    given = [name for name in SERVERS if options[name] is not None]
    if options["cluster"] is not None:
        if given:
            raise BadInput(f"--cluster and --{given[0].replace('_', '-')} say the same thing: give one of them.")
        return read_cluster(options["cluster"], racks=options["racks"])
    each = {name: default if options[name] is None else options[name] for name, default in SERVERS.items()}
    group = ServerGroup(
        count=int(each["servers"]), gpus=int(each["gpus"]), cpus=each["cpus"], memory_bytes=each["memory_gb"] * GB
    )
    return Cluster(groups=(group,), racks=options["racks"])
