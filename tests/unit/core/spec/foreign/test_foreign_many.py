"""Batch scripts of Slurm with arrays and dependencies: what maps, and why the rest does not."""

from scheduler.core.spec.foreign.sbatch import from_sbatch
from scheduler.core.spec.spec import JobSpec

SCRIPT = """#!/bin/bash
#SBATCH --gres=gpu:1
{lines}
python train.py --seed $SLURM_ARRAY_TASK_ID --of ${{SLURM_ARRAY_TASK_COUNT}}
"""


def test_an_array_and_its_variables_map() -> None:
    """The range as it stands, and the script reads our names."""
    made = from_sbatch(SCRIPT.format(lines="#SBATCH --array=0-99:3%10"), queue="vision")

    spec = JobSpec.parse(made.spec)
    assert spec.array is not None
    assert (spec.num_jobs, spec.array.most_at_work) == (34, 10)
    assert "--seed $CLUSTERWEB_ARRAY_INDEX --of ${CLUSTERWEB_ARRAY_COUNT}" in made.spec["files"]["job.sh"]
    assert made.unmapped == []


def test_an_array_that_is_too_large_is_told() -> None:
    """One job remains, with the reason."""
    made = from_sbatch(SCRIPT.format(lines="#SBATCH -a 0-5000"), queue="vision")

    assert "array" not in made.spec
    [first] = [one for one in made.unmapped if "--array" in one.source]
    assert first.why == "array may have at most 1000 jobs. You asked for 5001."


def test_dependencies_say_what_to_write_instead() -> None:
    """Numbers of another scheduler mean nothing here, so each kind says its word."""
    lines = "#SBATCH --dependency=afterok:12:13,afternotok:14,afterany:15,singleton,after:3"

    made = from_sbatch(SCRIPT.format(lines=lines), queue="vision")

    told = {one.source: one.why for one in made.unmapped}
    assert "depends_on: [J-...: completed, J-...: completed]" in told["--dependency=afterok:12:13"]
    assert "[J-...: failed]" in told["--dependency=afternotok:14"]
    assert "[J-...: ended]" in told["--dependency=afterany:15"]
    assert "one name" in told["--dependency=singleton"]
    assert "have begun" in told["--dependency=after:3"]
    assert "depends_on" not in made.spec
