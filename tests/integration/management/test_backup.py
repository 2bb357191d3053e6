"""Backup and restore by their commands, on files of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusterweb.config.env import BASE_DIR

pytestmark = pytest.mark.usefixtures("processes")

FILL = """
import django; django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from tests.support.rows.factories import job_make, queue_make
for name in ("vision", "speech"):
    queue = queue_make(name, quota_gpus=len(name))
    job_make(queue, name=f"of-{name}")
"""
SHOW = """
import django; django.setup()
from scheduler.models import Cluster, Job, Queue
print(sorted(Queue.objects.values_list("name", "quota_gpus")), sorted(Job.objects.values_list("pk", "name", "state")))
cluster = Cluster.objects.get()
print(cluster.epoch, cluster.paused)
"""


def run(var_dir: Path, *arguments: str, database_url: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python with a state directory of its own."""
    environ = {
        **os.environ,
        "VAR_DIR": str(var_dir),
        "DATABASE_URL": database_url,
        "DJANGO_SETTINGS_MODULE": "clusterweb.settings",
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=BASE_DIR, env=environ, capture_output=True, text=True, timeout=300
    )


def test_restored_copy_lists_the_same_jobs_and_quotas(tmp_path: Path) -> None:
    """It is paused and has a higher epoch; a database with jobs is not given up by accident, nor for what is none."""
    first, second, file = tmp_path / "first", tmp_path / "second", tmp_path / "all.backup"
    wrong = tmp_path / "wrong"
    wrong.write_bytes(b"not a database at all, but long enough to look like one" * 20)
    before = run(first, "-c", FILL + SHOW).stdout.splitlines()
    made = run(first, "manage.py", "backup", str(file))
    again = run(first, "manage.py", "backup", str(file))
    nowhere = run(first, "manage.py", "backup", str(tmp_path / "nowhere" / "file"))
    restored = run(second, "manage.py", "restore", str(file))
    refused = run(second, "manage.py", "restore", str(file))
    replaced = run(second, "manage.py", "restore", str(file), "--replace")
    no_backup = run(second, "manage.py", "restore", str(wrong), "--replace")
    after = run(second, "-c", SHOW).stdout.splitlines()

    assert len(before) == 2
    assert "2 queues, 2 jobs" in made.stdout
    assert file.stat().st_mode & 0o777 == 0o600
    assert "exists already" in again.stderr
    assert nowhere.stderr.startswith("CommandError")
    assert "is not there" in nowhere.stderr
    assert "2 queues, 2 jobs" in restored.stdout, restored.stderr
    assert "They are lost by a restore" in refused.stderr
    assert replaced.returncode == 0, replaced.stderr
    assert before[0] == after[0]
    assert int(after[1].split()[0]) > int(before[1].split()[0])
    assert after[1].endswith("True")
    assert no_backup.returncode != 0
    assert "is no backup" in no_backup.stderr
    assert "Traceback" not in no_backup.stderr
