"""How often a foreign job starts, and its lines that start ranks: in our words, or listed with what to do."""

from dataclasses import dataclass

import pytest

from scheduler.core.spec.foreign.commands import from_dstack, from_skypilot
from scheduler.core.spec.foreign.sbatch import from_sbatch
from scheduler.core.spec.foreign.translation import Translation
from scheduler.core.spec.spec import JobSpec


@dataclass(frozen=True)
class Told:
    """What became of a script: its spec, its lines after the options, and all that did not map."""

    per: str
    max_servers: int
    lines: list[str]
    unmapped: str


def told(made: Translation, file: str = "job.sh") -> Told:
    """Return what is looked at; the spec must be one that can be submitted."""
    spec = JobSpec.parse(made.spec).to_json()
    lines = [line for line in spec["files"][file].splitlines() if not line.startswith("#")]
    unmapped = "\n".join(f"{entry.source}: {entry.why}" for entry in made.unmapped)
    return Told(spec["launch"]["per"], spec["resources"]["max_servers"], lines, unmapped)


def script(options: str, *lines: str) -> Told:
    """Translate a batch script."""
    return told(from_sbatch("\n".join(["#!/bin/bash", f"#SBATCH {options}", *lines, ""]), queue="q"))


@pytest.mark.parametrize(
    ("options", "line", "per", "max_servers"),
    [
        ("--gpus=4", "python train.py", "job", 1),
        ("--gpus=4", "srun python train.py", "job", 1),
        ("--gpus=4 --ntasks=4", "srun python train.py", "gpu", 1),
        ("--nodes=2 --gpus-per-node=4 --ntasks-per-node=4", "srun python train.py", "gpu", 2),
        ("--nodes=2 --gpus-per-node=4 --ntasks-per-node=1", "srun torchrun train.py", "server", 2),
        ("--nodes=2 --gpus-per-node=4", "srun torchrun train.py", "server", 2),
        ("--nodes=2 --gpus-per-node=1", "srun python train.py", "server", 2),
        ("--nodes=2 --gpus-per-node=4", "torchrun train.py", "server", 2),
    ],
)
def test_tasks_and_servers_say_how_often_it_starts(options: str, line: str, per: str, max_servers: int) -> None:
    """As many tasks as servers or as GPUs; a script that starts nothing elsewhere starts once."""
    found = script(options, line)

    assert (found.per, found.max_servers) == (per, max_servers)


def test_tasks_that_are_neither_are_listed() -> None:
    """Three processes for four GPUs do not exist here."""
    found = script("--gpus=4 --ntasks=3", "srun python train.py")

    assert found.per == "job"
    assert "3 tasks on 1 server: A job starts once on each server or once for every GPU (4)" in found.unmapped


def test_torchrun_under_srun_becomes_torchrun_alone() -> None:
    """Its place comes from variables; what else it was given stays, and each change is listed."""
    found = script(
        "--nodes=2 --gpus-per-node=8",
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "srun --label -n 2 torchrun \\",
        "  --nnodes=$SLURM_NNODES --nproc-per-node 8 --rdzv_id=$RANDOM \\",
        "  --rdzv_backend c10d --rdzv_endpoint=$head:29500 --max_restarts=3 \\",
        '  train.py --lr 0.1 --name "two words" --nnodes 9',
        'echo "$SLURM_NODEID of $SLURM_NNODES"',
    )

    assert found.lines[1:] == [
        'torchrun --max_restarts=3 train.py --lr 0.1 --name "two words" --nnodes 9',
        'echo "$NODE_RANK of $NNODES"',
    ]
    assert "the whole script is started once on each server, every line of it" in found.unmapped
    assert "(--label -n 2) are left out" in found.unmapped
    assert "--nproc-per-node 8 --rdzv_id=$RANDOM" in found.unmapped
    assert "MASTER_ADDR and MASTER_PORT are set already" in found.unmapped
    assert "SLURM_JOB_NODELIST: It is not set here." in found.unmapped


def test_torchrun_on_one_server_stays_as_it_is() -> None:
    """It starts once, and finds its ranks by its own arguments."""
    line = "torchrun --standalone --nproc_per_node=4 train.py"
    found = script("--gpus=4", line)

    assert (found.per, found.lines) == ("job", [line])
    assert "torchrun" not in found.unmapped


def test_ranks_find_their_numbers_under_our_names() -> None:
    """For every GPU the task is the rank; on each server it is the server."""
    line = "srun python train.py --rank $SLURM_PROCID --of ${SLURM_NTASKS}"

    assert script("--gpus=2 --ntasks=2", line).lines == ["python train.py --rank $RANK --of ${WORLD_SIZE}"]
    assert script("--gpus=2 --nodes=2", line).lines == ["python train.py --rank $NODE_RANK --of ${NNODES}"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("source ~/venv/bin/activate", "Name the environment by its full path"),
        ('. "$HOME/envs/a/bin/activate"', "Name the environment by its full path"),
        ("conda activate torch", "has no conda"),
        ("module load cuda", "Modules are not loaded"),
        ("mpirun -np 8 ./train", "by ssh, which jobs do not have"),
    ],
)
def test_lines_that_mean_nothing_here_say_what_to_do(line: str, why: str) -> None:
    """They stay in the script, and are listed by number."""
    found = script("--gpus=1", line)

    assert found.lines == [line]
    assert f"line 3: {line}: " in found.unmapped
    assert why in found.unmapped


def test_environment_with_a_full_path_stays() -> None:
    """It is a folder that an admin may have opened for jobs."""
    found = script("--gpus=1", "source /opt/envs/torch/bin/activate", "python train.py")

    assert found.unmapped == ""


def test_servers_of_skypilot_and_dstack_start_as_there() -> None:
    """Their lines run on each server, and their names for it are ours."""
    sky = told(
        from_skypilot(
            {
                "num_nodes": 2,
                "resources": {"accelerators": "A100:4"},
                "run": "torchrun --nnodes=$SKYPILOT_NUM_NODES --node_rank=$SKYPILOT_NODE_RANK train.py\n"
                'echo "$SKYPILOT_NODE_IPS"',
            },
            queue="q",
        ),
        "run.sh",
    )
    dstack = told(
        from_dstack(
            {
                "nodes": 2,
                "resources": {"gpu": 4},
                "commands": ["torchrun --master-addr=$DSTACK_MASTER_NODE_IP train.py", "echo $DSTACK_NODE_RANK"],
            },
            queue="q",
        ),
        "run.sh",
    )

    assert (sky.per, sky.max_servers, sky.lines[1]) == ("server", 2, "torchrun train.py")
    assert "SKYPILOT_NODE_IPS: It is not set here." in sky.unmapped
    assert (dstack.per, dstack.lines[1:]) == ("server", ["torchrun train.py", "echo $NODE_RANK"])
