"""What a torch checkpoint holds, and what it refuses to hold."""

import os
import random
import resource
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from agents.runtime import Run, StateMismatch, StateUnsavable
from tests.support.agents.runtime_job import JobFolder


@pytest.fixture
def torch() -> Iterator[ModuleType]:
    """Import torch when a test needs it, not when tests are collected, and leave its threads as they were."""
    import torch

    threads = torch.get_num_threads()
    yield torch
    torch.set_num_threads(threads)


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder.create(tmp_path / "attempt")


def through_a_file(job: JobFolder, state: dict[str, object]) -> dict[str, object]:
    """Return the state as the next attempt gets it."""
    run = Run(total_steps=1, environ=job.environ())
    run.on_checkpoint(lambda: state)
    list(run.steps())
    loaded = Run(environ=job.environ(resume=job.checkpoints()[-1])).resume()
    assert loaded is not None
    return loaded


def test_random_numbers_of_all_three_libraries_continue(torch: ModuleType, job: JobFolder) -> None:
    """Python, numpy and torch draw after a resume what they would have drawn, half-used pairs of numbers included."""
    from agents.runtime.torch_state import capture, restore

    model = torch.nn.Linear(2, 2)
    random.gauss(0, 1), np.random.standard_normal(), torch.randn(3)
    state = through_a_file(job, capture(model))
    expected = (random.gauss(0, 1), np.random.standard_normal(3).tolist(), torch.randn(3).tolist())
    random.seed(99), np.random.seed(99), torch.manual_seed(99)

    restore(state, model)

    assert (random.gauss(0, 1), np.random.standard_normal(3).tolist(), torch.randn(3).tolist()) == expected


def test_place_in_the_data_continues_over_the_end_of_an_epoch(torch: ModuleType, job: JobFolder) -> None:
    """Batches after a resume are those that were still to come, in this epoch and the next ones."""
    from agents.runtime.torch_state import Batches

    batches = Batches(num_rows=10, batch_size=3, seed=5)
    drawn = [next(batches) for _ in range(4)]
    again = Batches(num_rows=10, batch_size=3, seed=5)
    again.load_state_dict(through_a_file(job, batches.state_dict()))

    assert batches.epoch == 1
    assert len({int(row) for batch in drawn[:3] for row in batch}) == 9
    assert all(torch.equal(next(batches), next(again)) for _ in range(20))


def test_epochs_and_seeds_have_orders_of_their_own(torch: ModuleType) -> None:
    """No two epochs and no two seeds read the data in the same order."""
    from agents.runtime.torch_state import Batches

    orders = set()
    for seed in (1, 2):
        batches = Batches(num_rows=50, batch_size=50, seed=seed)
        orders |= {tuple(next(batches).tolist()) for _ in range(3)}

    assert len(orders) == 6


def test_state_of_other_data_or_other_parts_is_refused(torch: ModuleType) -> None:
    """A checkpoint that does not fit is a mistake that is named, not a training that goes astray."""
    from agents.runtime.torch_state import Batches, capture, restore

    model = torch.nn.Linear(2, 2)
    batches = Batches(num_rows=10, batch_size=2, seed=1)
    state = capture(model, batches=batches)

    with pytest.raises(StateMismatch, match="batches"):
        restore(state, model)
    with pytest.raises(StateMismatch, match="10 rows with seed 1"):
        restore(state, model, batches=Batches(num_rows=10, batch_size=2, seed=2))


def test_state_that_torch_would_not_load_is_refused_at_once(torch: ModuleType, job: JobFolder) -> None:
    """An object that weights_only rejects is found at the first checkpoint, and leaves no file."""
    run = Run(total_steps=1, environ=job.environ())
    run.on_checkpoint(lambda: {"weights": torch.zeros(2), "generator": random.Random(1)})

    with pytest.raises(StateUnsavable):
        list(run.steps())

    assert not job.checkpoints()


def test_full_disk_under_a_large_checkpoint_is_reported(torch: ModuleType, job: JobFolder) -> None:
    """torch hides the error of the disk behind one of its own; the report tells the disk's, and training goes on."""
    run = Run(total_steps=2, checkpoint_every_steps=1, environ=job.environ())
    run.on_checkpoint(lambda: {"weights": torch.zeros(1_000_000)})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    for step in run.steps():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000 if step == 0 else before[0], before[1]))

    assert [report["step"] for report in job.reports("checkpoint_failed")] == [1]
    assert os.strerror(27) in job.reports("checkpoint_failed")[0]["detail"]
    assert [path.name[:11] for path in job.checkpoints()] == ["step-000002"]


def test_granted_cores_bound_the_threads(torch: ModuleType) -> None:
    """More threads than cores slow all jobs down many times over."""
    Run(environ={"CLUSTERWEB_NUM_CPUS": "3"})

    assert torch.get_num_threads() == 3


def test_loss_may_be_a_tensor_with_a_graph(torch: ModuleType, job: JobFolder) -> None:
    """A script reports the loss as it comes out of its loss function."""
    run = Run(total_steps=1, environ=job.environ())

    for _ in run.steps():
        run.report(loss=torch.ones(1, requires_grad=True).sum() * 2)

    assert job.reports("progress")[0]["loss"] == 2.0
