"""``manage.py simulate`` from its arguments to its figures, notes and exit codes."""

import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from scheduler.core.model.changes import Changes
from scheduler.simulator.incremental.single_queue_rounds import SingleQueueRounds
from scheduler.simulator.state.outcome import Summary
from tests.support.live.simulations import BUSY, ROOT, SMALL, TRACE, figures, simulate, stable

PROMISED = {
    *("jobs", "finished", "unfinished", "avg_jct_s", "p50_jct_s", "p95_jct_s", "p99_jct_s", "makespan_s"),
    *("avg_queueing_s", "avg_gpu_occupancy", "avg_useful_gpu", "preemptions", "moves", "avg_rho", "p99_rho", "max_rho"),
    *("jain_index", "rounds", "cpu_s", "peak_rss_bytes", "plan_hash"),
}


@pytest.mark.usefixtures("processes")
def test_a_fresh_checkout_needs_no_database(tmp_path: Path) -> None:
    """In an empty directory without a state directory; nothing is created but what was asked for."""
    state = tmp_path / "state"
    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", "simulate", TRACE, "--policy", "srtf", *SMALL, "--json", "figures.json"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "VAR_DIR": str(state)},
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "60 jobs of" in done.stdout
    assert json.loads((tmp_path / "figures.json").read_text())["finished"] == 60
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]


def test_json_has_the_promised_keys() -> None:
    """All figures by their names, and the setting that gave them."""
    found = figures(TRACE, "--policy", "fifo", *SMALL)

    assert set(Summary.__annotations__) == PROMISED
    assert set(found) >= PROMISED
    assert found["arm"] == "fifo:consolidate+proportional"
    assert (found["jobs"], found["finished"], found["unfinished"]) == (60, 60, 0)
    assert {"trace", "format", "cluster", "gpus", "seed", "version", "round_s"} <= set(found)


@pytest.mark.usefixtures("processes")
def test_comparing_in_processes_gives_what_single_runs_give() -> None:
    """Arm by arm and seed by seed, to the last digit and the same decisions."""
    arms = {"fifo": ("--policy", "fifo"), "srtf+tune": ("--policy", "srtf", "--mechanism", "tune")}
    compared = figures(*BUSY, "--compare", ",".join(arms), "--seed", "3,4", "--workers", "2")["arms"]
    alone = [figures(*BUSY, *flags, "--seed", seed) for flags in arms.values() for seed in ("3", "4")]

    assert isinstance(compared, list)
    assert [(run["arm"], run["seed"]) for run in compared] == [(run["arm"], run["seed"]) for run in alone]
    assert [stable(run) for run in compared] == [stable(run) for run in alone]
    assert len({run["plan_hash"] for run in compared}) == 4


def test_the_table_names_the_best_of_each_line() -> None:
    """Two arms that differ: one has the star."""
    lines = simulate(*BUSY, "--compare", "fifo,srtf", "--workers", "1").splitlines()

    assert re.split(r"\s{2,}", lines[2].strip()) == ["fifo", "srtf"]
    assert next(line for line in lines if line.startswith("avg JCT")).endswith("*")


def test_jobs_left_over_end_with_one_and_say_why() -> None:
    """How many; with reasons, for what they waited."""
    cut = (TRACE, "--policy", "fifo", *SMALL, "--until", "1500")
    with pytest.raises(CommandError, match=r"of 60 jobs did not finish .*: never started") as caught:
        simulate(*cut)
    with pytest.raises(CommandError, match=r"of 60 jobs did not finish .*: jobs before them in the order"):
        simulate(*cut, "--reasons")

    assert caught.value.returncode == 1


def told(*arguments: str) -> str:
    """Run the command and return what it said beside its table."""
    notes = StringIO()
    call_command("simulate", *arguments, stdout=StringIO(), stderr=notes)
    return notes.getvalue()


def test_verbose_says_once_for_each_arm_how_rounds_are_planned() -> None:
    """The planner, and for each faster one why it does not apply."""
    lines = told(*BUSY, "--compare", "fifo,ftf,srtf+opt", "--seeds", "2", "--workers", "1", "--verbose").splitlines()

    assert lines == [
        "fifo:consolidate+proportional: single-queue rounds: a round looks only at what changed since the round before",
        "ftf:consolidate+proportional: moving-order rounds: jobs keep their GPUs, and the order is made anew in each "
        "round",
        "  not single-queue rounds: what places a job in the order of ftf changes while it waits or runs",
        "srtf:consolidate+opt: every round is planned from scratch: opt gives cores and memory over all servers at "
        "once",
    ]


@pytest.mark.usefixtures("processes")
def test_check_says_what_was_checked() -> None:
    """Rounds and comparisons of each replay; the figures are those of a replay without checks."""
    arms = (*BUSY, "--compare", "srtf,srtf+opt", "--workers", "2")
    first, second = told(*arms, "--check").splitlines()

    assert re.fullmatch(
        r"srtf:\S+, seed 0: \d+ rounds keep the safety rules; \d+ of them were planned from scratch as well, "
        r"without a difference\.",
        first,
    )
    assert re.fullmatch(r"srtf:\S+, seed 0: \d+ rounds keep the safety rules; all were planned from scratch\.", second)
    assert stable(figures(*BUSY, "--policy", "srtf", "--check")) == stable(figures(*BUSY, "--policy", "srtf"))


def test_check_ends_at_the_first_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that starts no job is found out: status 3, with the arm, the time and the job."""
    monkeypatch.setattr(SingleQueueRounds, "plan", lambda *_: Changes())
    says = r"--check: las:\S+: the incremental round at .* s differs .*: job 0 starts with nothing, from scratch "
    with pytest.raises(CommandError, match=says) as caught:
        simulate(*BUSY, "--policy", "las", "--check")

    assert caught.value.returncode == 3


def test_failures_and_what_changes_cost_can_be_set() -> None:
    """Lost work, the rules of retries, managers and options of an introspection each change the outcome."""
    failing = ("generate:philly?jobs=80&failures=1&load=1.5", "--policy", "las", "--servers", "4")
    plain = figures(*failing)
    for more in (
        ("--checkpoint-s", "600"),
        ("--costs", "restart"),
        ("--introspection", "slicing"),
        ("--introspection", "slicing", "--introspection-option", "slicing.quantum_s=600"),
    ):
        found = figures(*failing, *more)
        assert found["plan_hash"] != plain["plan_hash"], more
        plain = found
    with pytest.raises(CommandError, match="ran, but not to the end"):
        figures(*failing, "--retries", "rules")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((TRACE,), "--policy or --compare is needed"),
        ((TRACE, "--policy", "nope"), "There is no policy nope. There is fifo"),
        ((TRACE, "--policy", "fifo", "--locality", "nope"), "no locality nope"),
        ((TRACE, "--policy", "fifo", "--mechanism", "nope"), "no mechanism nope"),
        ((TRACE, "--policy", "las", "--policy-option", "x=1"), "las has no option x. There is"),
        ((TRACE, "--policy", "las", "--policy-option", "promote_after"), "must be name=value"),
        ((TRACE, "--policy", "las", "--policy-option", "promote_after=soon"), "promote_after is a number"),
        ((TRACE, "--compare", "fifo,fifo"), "names fifo:consolidate[+]proportional twice"),
        ((TRACE, "--compare", "fifo,,srtf nope"), "is not an arm"),
        ((TRACE, "--policy", "fifo", "--servers", "0"), "--servers: must be a whole number from 1"),
        ((TRACE, "--policy", "fifo", "--cpus", "nan"), "--cpus: must be a number above 0"),
        ((TRACE, "--policy", "fifo", "--round-s", "-5"), "--round-s: must be a number above 0"),
        ((TRACE, "--policy", "fifo", "--seed", "1,1"), "names a seed twice"),
        ((TRACE, "--policy", "fifo", "--mix", "vision=1"), "--mix: must be none, or shares of image"),
        ((TRACE, "--policy", "fifo", "--load", "0"), "--load: must be a number above 0"),
        ((TRACE, "--policy", "fifo", "--window", "9:1"), "--window: .*empty"),
        ((TRACE, "--policy", "fifo", "--window", "2026-01-01:"), "--window: .*no dates"),
        ((TRACE, "--policy", "fifo", "--window", "9000000:"), "no job of the trace arrives in it"),
        ((TRACE, "--policy", "fifo", "--format", "sacct"), "no column JobID"),
        ((TRACE, "--policy", "fifo", "--records", "rows.txt"), "must end in .csv or .parquet"),
        ((TRACE, "--policy", "fifo", "--json", "/nowhere/at/all.json"), "there is no folder /nowhere/at"),
        ((TRACE, "--policy", "fifo", "--html", "/tmp"), "/tmp: is a folder"),
        ((TRACE, "--policy", "fifo", "--records", "t.csv", "--series", "./t.csv"), "t.csv: is to hold two outputs"),
        ((TRACE, "--policy", "fifo", "--round-s", "1e300"), "--round-s: must be at most 1e[+]09 seconds"),
        ((TRACE, "--policy", "fifo", "--cluster", "/nowhere.yaml"), "cannot be read: No such file"),
        ((TRACE, "--policy", "fifo", "--cluster", "c.yaml", "--gpus", "8"), "--cluster and --gpus say the same"),
        (("/nowhere.csv", "--policy", "fifo"), "cannot be opened: No such file"),
        (
            (TRACE, "--policy", "fifo", "--servers", "1", "--gpus", "4"),
            r"job \d+ \(.*\) needs 8 GPUs .* has 4; 10 of 60",
        ),
        ((TRACE, "--policy", "fifo", "--introspection-option", "x=1"), "must be choice.name=value"),
        ((TRACE, "--policy", "fifo", "--introspection-option", "slicing.quantum_s=9"), "slicing, which is not chosen"),
        ((TRACE, "--policy", "fifo", "--costs", "restart", "--restart-s", "9"), "--costs and --restart-s say the same"),
        ((TRACE, "--policy", "fifo", "--costs", "free"), "invalid choice: 'free'"),
        ((TRACE, "--compare", "fifo,las", "--checkpoint", "s"), "give one --policy and one --seed"),
        ((TRACE, "--policy", "fifo", "--introspection", "slicing", "--checkpoint", "s"), "cannot be interrupted"),
        ((TRACE, "--policy", "fifo", "--continue", "s", "--html", "r.html"), "need a replay in one piece"),
        ((TRACE, "--policy", "fifo", *SMALL, "--continue", "/nowhere"), "--continue: /nowhere cannot be read: No such"),
        ((TRACE, "--policy", "fifo", *SMALL, "--continue", TRACE), "is not the state of a replay"),
        (("generate:nope", "--policy", "fifo"), "no generator 'nope'"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_message(arguments: tuple[str, ...], says: str) -> None:
    """The field, the reason, and what would be right; exit code 2."""
    with pytest.raises(CommandError, match=says) as caught:
        simulate(*arguments)

    # argparse ends the process with 2 itself; through call_command it raises.
    assert caught.value.returncode == 2 or str(caught.value).startswith("Error: argument")


@pytest.mark.usefixtures("processes")
def test_a_bad_row_is_named_by_its_line(tmp_path: Path) -> None:
    """A text in a number of the trace: file, line, column; nothing is written."""
    text = Path(TRACE).read_text().splitlines()
    cells = text[3].split(",")
    text[3] = ",".join([cells[0], "many", *cells[2:]])
    (tmp_path / "bad.csv").write_text("\n".join(text))
    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", "simulate", tmp_path / "bad.csv", "--policy", "fifo", "--json", "f.json"],
        cwd=tmp_path,
        env={**os.environ, "VAR_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 2
    assert re.search(r"bad\.csv, line 4, column \w+: .*many", done.stderr)
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "f.json").exists()


def test_a_cluster_file_and_its_queues_decide(tmp_path: Path) -> None:
    """Servers of the file, queues by the trace's names; a queue that is missing is told."""
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"servers": [{"count": 4, "gpus": 4, "cpus": 12, "memory_gb": 250}]}))
    from_file = figures(TRACE, "--policy", "srtf", "--cluster", str(cluster))
    cluster.write_text(
        json.dumps({"servers": [{"gpus": 8, "cpus": 24, "memory_gb": 500}], "queues": [{"name": "nobody", "quota": 8}]})
    )

    assert stable(from_file) == stable(figures(TRACE, "--policy", "srtf", *SMALL))
    with pytest.raises(CommandError, match="does not name as queues"):
        simulate(TRACE, "--policy", "srtf", "--cluster", str(cluster))


def test_servers_told_too_small_are_noticed(tmp_path: Path) -> None:
    """A history insists on its cores and memory: where they are used up before the GPUs, a warning says so."""
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,num_gpus,run_s,min_cpus,min_memory_bytes\n0,2,60,16,8e9\n0,1,60,3,200e9\n0,1,60,3,0\n")

    small = figures(str(trace), "--policy", "fifo")["warnings"]
    assert [str(text).split(":")[0] for text in small] == [  # type: ignore[attr-defined]  # a JSON list
        "1 of 3 jobs insist on more than the 3 cores that come with a GPU here",
        "1 of 3 jobs insist on more than the 62.5 GB of memory that come with a GPU here",
        "no job gets a model",
    ]
    roomy = ("--cpus", "64", "--memory-gb", "1600", "--mix", "none")
    assert figures(str(trace), "--policy", "fifo", *roomy)["warnings"] == []


def test_a_queue_for_each_of_the_trace() -> None:
    """By default one for each name with its quota, as on the what-if page; one for all on demand."""
    arguments = ("generate:philly?jobs=100&queues=3&load=1.5", "--policy", "fifo")
    found, in_one = figures(*arguments), figures(*arguments, "--queues", "one")

    assert found["queues"] == ["queue-0", "queue-1", "queue-2"]
    assert sum(found["quotas_gpus"]) == 128  # type: ignore[call-overload]  # a JSON list
    assert (in_one["queues"], in_one["quotas_gpus"]) == (["all"], [0])
    assert found["plan_hash"] != in_one["plan_hash"]


def test_the_answer_says_which_queues_it_used(tmp_path: Path) -> None:
    """How many and where they come from; quotas largest first, many of them added up."""
    trace, cluster = tmp_path / "t.csv", tmp_path / "cluster.json"
    rows = [f"0,{1 + row // 11},60,team-{row}" for row in range(12)]
    trace.write_text("\n".join(["arrival_s,num_gpus,run_s,queue", *rows]))
    cluster.write_text(
        json.dumps(
            {
                "servers": [{"gpus": 8, "cpus": 24, "memory_gb": 500}],
                "queues": [{"name": f"team-{row}"} for row in range(12)],
            }
        )
    )
    arguments = (str(trace), "--policy", "fifo")
    first, second, *_ = simulate(*arguments, "--servers", "2", "--gpus", "13").splitlines()

    assert first.endswith("rounds of 300 s, 12 queues of the trace")
    assert second == (
        "Quota of each queue in GPUs, by the GPU time of its jobs: team-11 4, team-0 2, team-1 2, team-2 2, team-3 2, "
        "team-4 2, team-5 2, team-6 2, team-7 2, team-8 2, 2 more 4. --queues one puts all jobs in one."
    )
    for more, says in (
        (("--queues", "one"), "one queue"),
        (("--cluster", str(cluster)), "12 queues of the cluster file"),
    ):
        first, second, *_ = simulate(*arguments, *more).splitlines()
        assert first.endswith(f"rounds of 300 s, {says}")
        assert second == ""


def test_the_workload_is_cut_and_stretched() -> None:
    """First jobs of a window; a load is told in the warnings."""
    found = figures(TRACE, "--policy", "fifo", *SMALL, "--window", "100:", "--jobs", "20", "--load", "0.5")

    assert found["jobs"] == 20
    assert "offered load of 0.5" in str(found["warnings"])


@pytest.mark.usefixtures("processes")
def test_the_documented_library_call_runs() -> None:
    """The snippet of docs/simulator.md as it stands there, in a process that never loads Django."""
    text = (ROOT / "docs/simulator.md").read_text(encoding="utf-8")
    snippet = re.search(r"```python\n(.*?)```", text, flags=re.S)
    assert snippet
    checked = f"{snippet[1]}\nimport sys\nassert 'django' not in sys.modules\n"
    done = subprocess.run([sys.executable, "-c", checked], cwd=ROOT, capture_output=True, text=True, timeout=300)

    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["fifo", "srtf"]


@pytest.mark.usefixtures("processes")
def test_every_option_is_documented() -> None:
    """What the help lists is in docs/simulator.md, and so is every key of the JSON."""
    text = (ROOT / "docs/simulator.md").read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", "simulate", "--help"], capture_output=True, text=True, timeout=300
    )
    options = set(re.findall(r"^ +(--[a-z-]+)", done.stdout, flags=re.M))

    assert {"--policy", "--html", "--mix"} <= options
    assert [option for option in sorted(options) if option not in text] == []
    assert [key for key in Summary.__annotations__ if f"`{key}`" not in text] == []


def test_servers_that_the_trace_names_are_used_unless_others_are_asked_for(tmp_path: Path) -> None:
    """The node list of openb beside its pods; any option of servers goes before it."""
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nnode-0,64000,262144,2,P100\nnode-1,96000,524288,8,V100M32\n"
    )
    (tmp_path / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "a,12000,16384,1,1000,,LS,Succeeded,100,700,130\n"
    )
    pods = (str(tmp_path / "pods.csv"), "--policy", "fifo")

    assert figures(*pods)["gpus"] == 10
    assert figures(*pods)["cluster"] == "the 2 servers of the trace"
    assert figures(*pods, "--servers", "1")["gpus"] == 8
