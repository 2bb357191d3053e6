"""Jobs of Slurm, Kubernetes, SkyPilot and dstack become specs that are accepted; nothing is dropped in silence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.spec.foreign.commands import from_dstack, from_skypilot, is_dstack, is_skypilot
from scheduler.core.spec.foreign.kubernetes import from_kubernetes
from scheduler.core.spec.foreign.sbatch import from_sbatch
from scheduler.core.spec.foreign.translation import Translation
from scheduler.core.spec.spec import JobSpec
from scheduler.services.jobs.spec_text import spec_from_text
from tests.support.suite.examples import tried

SCRIPT = """#!/bin/bash
#SBATCH --job-name="train resnet"   # a comment
#SBATCH -N 1 --gres=gpu:v100:4
#SBATCH --cpus-per-task=12
#SBATCH --mem=64G
#SBATCH -t 1-12:30:00
#SBATCH --signal=B:USR1@120
#SBATCH --export=ALL,EPOCHS=90
#SBATCH --partition=gpu
#SBATCH --mail-type=END

module load cuda
#SBATCH --time=1
srun python train.py
"""

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: bert, labels: {team: nlp, kueue.x-k8s.io/queue-name: language}}
spec:
  backoffLimit: 2
  activeDeadlineSeconds: 7200
  parallelism: 1
  template:
    spec:
      nodeSelector: {gpu: a100}
      containers:
        - name: main
          image: example.org/bert:1
          command: [python, train.py]
          args: ["--epochs", 3]
          env:
            - {name: SEED, value: "1"}
            - {name: KEY, valueFrom: {secretKeyRef: {name: s, key: k}}}
          resources: {limits: {nvidia.com/gpu: 2}, requests: {cpu: 7500m, memory: 32Gi}}
"""


def sources(made: Translation) -> str:
    """Return all that did not map."""
    return "\n".join(entry.source for entry in made.unmapped)


def test_batch_script_of_slurm() -> None:
    """Every field that exists here is taken over, what does not is listed, and options after a command do not count."""
    made = from_sbatch(SCRIPT, queue="vision")
    spec = JobSpec.parse(made.spec).to_json()

    assert (spec["name"], spec["queue"], spec["command"]) == ("train-resnet", "vision", ["bash", "job.sh"])
    assert spec["files"]["job.sh"] == SCRIPT.replace("srun python", "python")
    assert spec["launch"] == {"per": "job"}
    assert (spec["resources"]["gpus"], spec["resources"]["cpus"]) == (4, 12)
    assert spec["resources"]["memory"] == "64GiB"
    assert spec["schedule"]["max_duration"] == "2190m"
    assert spec["checkpoint"]["grace"] == "2m"
    assert spec["env"] == {"EPOCHS": "90"}
    for word in ("--partition", "--mail-type", "module load", "srun", "v100"):
        assert word in sources(made)


@pytest.mark.parametrize(
    ("options", "gpus"),
    [
        ("--gpus=8", 8),
        ("-G 2", 2),
        ("-G2", 2),
        ("--gpus=a100:3", 3),
        ("--gres=gpu", 1),
        ("--gres=gpu:2 --nodes=2", 4),
        ("--gpus-per-node=4 -N 2", 8),
        ("--gpus-per-task=1 --ntasks=4", 4),
        ("--gpus-per-task=1 --ntasks-per-node=4 --nodes=2", 8),
        ("", 1),
    ],
)
def test_ways_to_ask_slurm_for_gpus(options: str, gpus: int) -> None:
    """All of them come to one number."""
    made = from_sbatch(f"#!/bin/bash\n#SBATCH {options}\npython train.py\n", queue="q")

    assert made.spec["resources"]["gpus"] == gpus


@pytest.mark.parametrize(
    ("value", "duration"),
    [("90", "90m"), ("1:30", "90s"), ("2:00:00", "2h"), ("1-0", "24h"), ("1-2:30", "1590m"), ("0", None)],
)
def test_times_of_slurm(value: str, duration: str | None) -> None:
    """Minutes, M:S, H:M:S, and days before a dash; a senseless one is listed."""
    made = from_sbatch(f"#SBATCH --time={value}\n", queue="q")

    assert made.spec.get("schedule", {}).get("max_duration") == duration
    assert ("--time" in sources(made)) == (duration is None)


def test_job_of_kubernetes() -> None:
    """Command, values, resources and limits are taken over; image, secrets and selectors are listed."""
    made = from_kubernetes(spec_from_text(JOB), queue="")
    spec = JobSpec.parse(made.spec).to_json()

    assert (spec["name"], spec["queue"]) == ("bert", "language")
    assert spec["command"] == ["python", "train.py", "--epochs", "3"]
    assert spec["env"] == {"SEED": "1"}
    assert (spec["resources"]["gpus"], spec["resources"]["cpus"], spec["resources"]["memory"]) == (2, 7.5, "32GiB")
    assert (spec["retry"]["max"], spec["schedule"]["max_duration"]) == (2, "2h")
    assert spec["labels"] == {"team": "nlp"}
    for word in ("image", "KEY", "nodeSelector"):
        assert word in sources(made)
    assert "parallelism" not in sources(made)


@pytest.mark.parametrize("data", [None, [], "text", {"kind": "Pod"}, {"kind": "Job"}, {"kind": "Job", "spec": []}])
def test_what_is_no_job_is_refused(data: object) -> None:
    """With a sentence that says what it is."""
    with pytest.raises(ValueError, match=r"kind: Job|no container"):
        from_kubernetes(data, queue="q")


@tried(200)
@given(lines=st.lists(st.text(alphabet="-=:,gpurestimNGnct12@\"' \\", max_size=20), max_size=6))
def test_any_text_is_a_script(lines: list[str]) -> None:
    """No pasted text breaks the translation."""
    text = "".join(f"#SBATCH {line}\n" for line in lines)

    assert from_sbatch(text, queue="q").spec["files"]["job.sh"] == text


SKYPILOT = """
name: finetune
workdir: .
num_nodes: 2
resources: {accelerators: "A100:4", cpus: 8+, memory: 64+, use_spot: true, disk_size: 100}
envs: {SEED: 1}
file_mounts: {/data: s3://bucket}
setup: pip install -r requirements.txt
run: |
  python train.py --epochs 3
"""
DSTACK = """
type: task
name: finetune
image: example.org/train:1
env: [SEED=1, TOKEN]
commands:
  - pip install -r requirements.txt
  - python train.py
resources: {gpu: "H100:80GB:2", cpu: "8..", memory: 32GB.., disk: 100GB}
max_duration: 48h
priority: 70
retry: true
"""


def test_task_of_skypilot() -> None:
    """Set-up and run become one script; servers become the sum of their GPUs, and what is not here is listed."""
    data = spec_from_text(SKYPILOT)
    assert is_skypilot(data)
    made = from_skypilot(data, queue="vision")
    spec = JobSpec.parse(made.spec).to_json()

    assert (spec["name"], spec["command"]) == ("finetune", ["bash", "run.sh"])
    assert "pip install -r requirements.txt\npython train.py --epochs 3" in spec["files"]["run.sh"]
    asked = {name: spec["resources"][name] for name in ("gpus", "max_servers", "cpus", "memory", "disk")}
    assert asked == {"gpus": 8, "max_servers": 2, "cpus": 16, "memory": "128GiB", "disk": "100GiB"}
    assert spec["launch"] == {"per": "server"}
    assert spec["env"] == {"SEED": "1"}
    for source in ("workdir", "num_nodes: 2", "accelerators: A100", "use_spot", "file_mounts"):
        assert source in sources(made)


def test_task_of_dstack() -> None:
    """Lines become a script that ends at the first failure; ranges become their lower end."""
    data = spec_from_text(DSTACK)
    assert is_dstack(data)
    made = from_dstack(data, queue="vision")
    spec = JobSpec.parse(made.spec).to_json()

    assert spec["files"]["run.sh"].splitlines() == [
        *("#!/bin/bash", "set -e", "pip install -r requirements.txt", "python train.py")
    ]
    assert (spec["resources"]["gpus"], spec["resources"]["cpus"]) == (2, 8)
    assert spec["schedule"] == {"priority": 70, "preemptible": True, "max_duration": "48h", "warn_before": None}
    assert spec["env"] == {"SEED": "1"}
    for source in ("image", "gpu: H100", "gpu: 80GB", "env: TOKEN"):
        assert source in sources(made)


@pytest.mark.parametrize(
    ("asked", "gpus"), [(None, 1), (4, 4), ("24GB", 1), ("A100:2", 2), ({"count": 3, "memory": "40GB"}, 3)]
)
def test_gpus_of_dstack(asked: object, gpus: int) -> None:
    """Every way to write them."""
    made = from_dstack({"type": "task", "commands": ["true"], "resources": {"gpu": asked}}, queue="q")

    assert made.spec["resources"]["gpus"] == gpus
