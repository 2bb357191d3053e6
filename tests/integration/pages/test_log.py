"""A log of a gigabyte opens at its end without being read."""

import os
from pathlib import Path

import pytest
from django.conf import settings

from tests.integration.api.conftest import World

LINE = b"2026-03-07T14:32:07Z step 1234 loss 0.4217\n"
LOG_BYTES = 10**9
MOST_READ = 2 * 2**20


def bytes_read() -> int:
    """Return how many bytes this process has read."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


@pytest.mark.parametrize("path", ["/jobs/{job}/logs", "/jobs/{job}/logs?at=500000000", "/api/v1/jobs/{job}/logs"])
def test_gigabyte_log_is_read_where_it_is_looked_at(world: World, path: str) -> None:
    """The last 1,000 lines, or those around a place, cost few bytes (the file is sparse before them)."""
    client, path = world.client("member"), path.format(job=world.job.pk)
    client.get(path)  # templates are read once
    log = Path(settings.SHARED_DIR) / "attempts" / world.job.attempts.get().pk / f"log.{200_000:020d}"
    with log.open("wb") as file:
        file.truncate(LOG_BYTES - 2000 * len(LINE))
        file.seek(0, os.SEEK_END)
        file.write(LINE * 2000)
    try:
        before = bytes_read()
        answer = client.get(path)
        read = bytes_read() - before
    finally:
        log.unlink()

    assert answer.status_code == 200
    assert read < MOST_READ
    assert "at=" in path or answer.content.count(b"loss 0.4217") == 1000
