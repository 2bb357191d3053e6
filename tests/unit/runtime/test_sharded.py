"""Shards of a split model: what is deleted is what it wrote itself."""

from pathlib import Path

import torch

from agents.runtime.run import Run
from agents.runtime.sharded import Sharded


def test_only_own_folders_that_no_manifest_names_are_deleted(tmp_path: Path) -> None:
    """A script may keep other things in the folder that it names, whatever they are called."""
    own = ("step-000001", "step-1000000", ".step-000002.partial")
    others = ("best-step-000001", "step-one", "last-step-1.partial")
    for name in (*own, *others):
        (tmp_path / name).mkdir()
    (tmp_path / "model-step-000003.pt").write_bytes(b"")
    model = torch.nn.Linear(1, 1)
    sharded = Sharded(Run(quiet=True), model, torch.optim.SGD(model.parameters()), folder=tmp_path)

    sharded._drop_unnamed()

    assert {path.name for path in tmp_path.iterdir()} == {*others, "model-step-000003.pt"}
