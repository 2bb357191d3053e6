"""A package with its data, sent by ``clusterweb submit .``, trains on a real agent."""

import random
from pathlib import Path

from tests.e2e.test_command import SPEC, command
from tests.support.e2e.stack import Stack

TRAIN = """
import pathlib
from net import model
data = pathlib.Path("data/train.bin").read_bytes()
print("trained", model.steps(data), "of", len(data))
"""
MODEL = "def steps(data):\n    return sum(data[::1000]) % 997\n"


def test_package_of_three_files_and_its_data_trains(stack: Stack, tmp_path: Path) -> None:
    """What could not be submitted at all: a package and 5 MB that are no text. The second time nothing is sent."""
    data = random.Random(7).randbytes(5_000_000)
    for name, content in (
        ("job.yaml", SPEC.format(name="package").encode()),
        ("train.py", TRAIN.encode()),
        ("net/__init__.py", b""),
        ("net/model.py", MODEL.encode()),
        ("data/train.bin", data),
        ("wandb/run.log", b"never sent"),
        (".gitignore", b"wandb/\n"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    first = command(stack, tmp_path, "submit", ".", "--wait")
    second = command(stack, tmp_path, "submit", ".", "--wait")

    assert first.returncode == 0, first.stderr + first.stdout
    assert "6 files sent, 4.8 MiB" in first.stderr
    assert f"trained {sum(data[::1000]) % 997} of 5000000\n" in first.stdout
    assert "Nothing to send; 6 were on the server. 1 ignored: wandb/" in second.stderr
    assert second.returncode == 0, second.stderr
