"""Do two trees decide alike? Digests of replays of every policy, locality and mechanism over the committed traces.

    python -m benchmarks.support.digests                     # the digests of this tree, as JSON
    python -m benchmarks.support.digests --against OTHER     # the same in another checkout, and every difference

Asks ``manage.py simulate`` alone, so the other checkout may be laid out otherwise. A digest covers which job held which
GPUs of which server from when to when, and when each job ended. Exit status 1 when any digest differs.
"""

import argparse
import csv
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve()
# Each committed trace with the cluster it is replayed on: small, so that jobs wait and gangs are spread.
TRACES: dict[str, tuple[str, ...]] = {
    "gavel_artifact_evaluation.trace": ("--servers", "2"),
    "gavel_max_min_fairness.trace": ("--servers", "3", "--jobs", "80"),
    "gavel_medium_test.trace": ("--servers", "2", "--gpus", "4"),
    "gavel_minimize_makespan.trace": ("--servers", "4", "--gpus", "4", "--jobs", "80"),
    "gavel_small_test.trace": ("--servers", "1"),
    "philly_2017-10.csv.gz": ("--servers", "16", "--jobs", "150", "--load", "1.3", "--queues", "trace"),
    "pollux_double_1.csv": ("--servers", "8", "--gpus", "4", "--jobs", "100"),
    "pollux_realistic_1.csv": ("--servers", "4", "--gpus", "4", "--jobs", "100"),
    "pollux_tuned_1.csv": ("--servers", "8", "--gpus", "4", "--jobs", "100"),
    "synergy_dynamic.csv": ("--servers", "2", "--jobs", "60"),
    "synergy_static.csv": ("--servers", "2", "--jobs", "60"),
    "tiresias_60_job.csv": ("--servers", "4", "--gpus", "4"),
}
# Beside the products: ways of deciding that the arms above do not reach.
MORE = (
    ("--policy", "las", "--policy-option", "promote_after=8"),
    ("--policy", "srtf", "--round-s", "none"),
    ("--policy", "afs-l", "--round-s", "60", "--costs", "concurrent-cancel"),
    ("--policy", "las", "--introspection", "slicing", "--round-s", "60"),
    ("--policy", "fifo", "--introspection", "packing", "--introspection", "migration", "--round-s", "60"),
    ("--policy", "fifo", "--introspection", "growth", "--round-s", "60"),
)


def ways() -> Iterator[tuple[str, ...]]:
    """Yield the options of each replay of a trace, from the registries of the tree that is looked at."""
    from scheduler.mechanisms import MECHANISMS
    from scheduler.placement import LOCALITIES
    from scheduler.policies import POLICIES

    for policy, locality, mechanism in itertools.product(POLICIES, LOCALITIES, MECHANISMS):
        yield ("--policy", policy, "--locality", locality, "--mechanism", mechanism)
    yield from MORE


def digests(trace: str) -> dict[str, str]:
    """Return the digest of each way over one trace, by its options; of a refusal the sentence. Runs in this process."""
    sys.path.insert(0, os.getcwd())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clusterweb.settings")
    import django
    from django.core.management import CommandError, call_command

    django.setup()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        records, placements = f"{folder}/records.csv", f"{folder}/placements.csv"
        for way in ways():
            arguments = (f"fixtures/traces/{trace}", *TRACES[trace], *way)
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                try:
                    call_command(
                        "simulate",
                        *arguments,
                        "--records",
                        records,
                        "--placements",
                        placements,
                        stdout=nowhere,
                        stderr=nowhere,
                    )
                except CommandError as error:
                    found[" ".join(way)] = f"refused: {error}"
                    continue
                except SystemExit as end:
                    if end.code == 2:  # the arguments do not go together
                        found[" ".join(way)] = "refused"
                        continue
            whole = _of_every_tree(Path(records)) + Path(placements).read_bytes()
            found[" ".join(way)] = hashlib.sha256(whole).hexdigest()[:16]
    return found


def _of_every_tree(records: Path) -> bytes:
    """Return the records without the column that trees before it have not; placements tell of moves as well."""
    with records.open(encoding="utf-8", newline="") as file:
        rows = [{name: value for name, value in row.items() if name != "moves"} for row in csv.DictReader(file)]
    return json.dumps(rows).encode()


def tree_digests(tree: Path, traces: list[str]) -> dict[str, dict[str, str]]:
    """Return the digests of a checkout by trace, each trace in a process of that checkout."""
    python = tree / ".venv" / "bin" / "python"

    def one(trace: str) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as state:
            answer = subprocess.run(
                [str(python), str(HERE), "--one", trace],
                cwd=tree,
                env={**os.environ, "VAR_DIR": state},
                stdout=subprocess.PIPE,
                check=True,
            )
        made: dict[str, str] = json.loads(answer.stdout)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(traces, pool.map(one, traces), strict=True))


def main() -> int:
    """Print the digests, or what differs from another checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="OTHER", help="another checkout, with its .venv")
    parser.add_argument("--traces", nargs="*", default=list(TRACES), choices=list(TRACES), metavar="TRACE")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(digests(chosen.one)))
        return 0
    here = tree_digests(Path.cwd(), chosen.traces)
    if not chosen.against:
        print(json.dumps(here, indent=1))
        return 0
    there = tree_digests(chosen.against.resolve(), chosen.traces)
    differ = [
        f"{trace} {way}: {there[trace][way]} there, {digest} here"
        for trace, found in here.items()
        for way, digest in found.items()
        if there[trace].get(way, digest) != digest
    ]
    refused = sum(digest.startswith("refused") for found in here.values() for digest in found.values())
    print("\n".join(differ) or "No digest differs.")
    print(f"{sum(map(len, here.values()))} replays of {len(here)} traces, {refused} refused, {len(differ)} differ.")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
