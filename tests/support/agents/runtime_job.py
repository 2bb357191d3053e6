"""The surroundings of one attempt as the supervisor makes them, for tests of the job-side runtime."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class JobFolder:
    """Directory of one attempt."""

    path: Path

    @staticmethod
    def create(path: Path) -> "JobFolder":
        """Make the directory with an empty place for checkpoints."""
        (path / "checkpoints").mkdir(parents=True)
        return JobFolder(path)

    def environ(self, *, resume: Path | None = None, **more: str) -> dict[str, str]:
        """Return the variables that the supervisor sets."""
        variables = {
            "CLUSTERWEB_REPORT_FILE": str(self.path / "reports.jsonl"),
            "CLUSTERWEB_REQUEST_FILE": str(self.path / "request.json"),
            "CLUSTERWEB_CHECKPOINT_DIR": str(self.path / "checkpoints"),
            "CLUSTERWEB_NUM_CPUS": "1",
        }
        if resume is not None:
            variables["CLUSTERWEB_RESUME_FILE"] = str(resume)
        return variables | more

    def ask(self, number: int, request: str) -> None:
        """Put a request in place, as the supervisor does."""
        temporary = self.path / "request.tmp"
        temporary.write_text(json.dumps({"id": number, "request": request}))
        temporary.replace(self.path / "request.json")

    def reports(self, event: str = "") -> list[dict[str, Any]]:
        """Return the reports so far, all or those of one kind."""
        file = self.path / "reports.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        found = [json.loads(line) for line in lines if line]
        return [report for report in found if event in ("", report["event"])]

    def checkpoints(self) -> list[Path]:
        """Return the files in the directory of checkpoints, oldest first."""
        return sorted((self.path / "checkpoints").iterdir())


class SteppingClock:
    """A clock that only moves when told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def process_environ(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a real training process: that of the tests, no other job's variables, and these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLUSTERWEB_")}
    return kept | {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"} | dict(variables)
