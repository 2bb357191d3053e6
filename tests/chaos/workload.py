"""Users of a chaos run: they submit jobs, send again what was not answered, and pause and resume some."""

import contextlib
import http.client
import json
import threading
import urllib.error
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos.steps import SCRIPT
from tests.support.e2e.stack import Answer, Client

MOST_UNFINISHED = 8
EVERY_S = 2.0
STEP_S = 0.1
NO_ANSWER = (urllib.error.URLError, OSError, http.client.HTTPException, json.JSONDecodeError)
ENDED = ("completed", "failed", "cancelled")


@dataclass(slots=True, kw_only=True)
class Asked:
    """One submission; ``job_id`` is empty until it was answered."""

    number: int
    total: int
    record: Path
    job_id: str = ""
    sends: int = 0
    state: str = ""


class Users:
    """One thread that acts for all users, through REST alone."""

    def __init__(self, client: Client, folder: Path, *, rng: Random) -> None:
        self.asked: list[Asked] = []
        self._client, self._folder, self._rng = client, folder, rng
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._act)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Submit nothing more."""
        self._stopping.set()
        self._thread.join()

    def _act(self) -> None:
        while not self._stopping.wait(EVERY_S * (0.5 + self._rng.random())):
            self.look()
            if sum(one.state not in ENDED for one in self.asked) < MOST_UNFINISHED:
                number = len(self.asked)
                self.asked.append(
                    Asked(number=number, total=self._rng.randrange(60, 300), record=self._folder / f"{number}.log")
                )
            self.send_unanswered()
            self._pause_one()

    def send_unanswered(self) -> None:
        """Send each submission that has no answer yet, with its own key."""
        for one in self.asked:
            if not one.job_id:
                one.sends += 1
                answer = self._call("POST", "/api/v1/jobs", self._spec(one), {"Idempotency-Key": f"chaos-{one.number}"})
                if answer is not None and answer.status in (200, 201):
                    one.job_id = str(answer.json["id"])

    def look(self) -> None:
        """Read the states of all jobs that have not ended."""
        for one in self.asked:
            if one.job_id and one.state not in ENDED:
                answer = self._call("GET", f"/api/v1/jobs/{one.job_id}")
                if answer is not None and answer.status == 200:
                    one.state = str(answer.json["state"])

    def resume_all(self) -> None:
        """Resume what is paused."""
        for one in self.asked:
            if one.job_id and one.state in ("suspended", "suspending"):
                self._call("POST", f"/api/v1/jobs/{one.job_id}/resume")

    def _pause_one(self) -> None:
        if self._rng.random() < 0.1:
            running = [one for one in self.asked if one.state == "running"]
            if running:
                self._call("POST", f"/api/v1/jobs/{self._rng.choice(running).job_id}/suspend")
        elif self._rng.random() < 0.3:
            self.resume_all()

    def _spec(self, one: Asked) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "name": f"chaos-{one.number}",
            "queue": "vision",
            "command": ["python", "job.py", str(one.total), str(STEP_S), str(one.record)],
            "files": {"job.py": SCRIPT},
            "resources": {"gpus": 1, "memory": "256MiB"},
            "schedule": {"preemptible": True, "priority": 10 * (one.number % 7)},
            "checkpoint": {"grace": "5s"},
            "retry": {"max": 10},
        }

    def _call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer | None:
        with contextlib.suppress(*NO_ANSWER):
            return self._client.call(method, path, body, headers)
        return None
