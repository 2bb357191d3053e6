"""Verbs about the files of jobs."""

import json
import sys
from argparse import Namespace

from clusterweb.cli.text import size
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError, ServerRefused
from clusterweb.client.rows import JobAnswer


def remove(given: Namespace) -> int:
    """Remove the directories of ended jobs, after a question with names and sizes; one that refuses stops no other."""
    client = Client()
    jobs: list[JobAnswer] = [client.get(f"jobs/{name}") for name in given.job]
    if not given.yes and not _is_sure(jobs):
        return 1
    answers, refused = [], 0
    for job in jobs:
        try:
            answers.append(client.post(f"jobs/{job['id']}/discard"))
        except ServerRefused as error:
            refused += 1
            print(f"J-{job['number']}: {error}", file=sys.stderr)
            continue
        if given.output == "text":
            print(f"J-{job['number']}  its files are being removed", flush=True)
    if given.output == "json":
        print(json.dumps(answers, indent=2), flush=True)
    return 1 if refused else 0


def _is_sure(jobs: list[JobAnswer]) -> bool:
    if not sys.stdin.isatty():
        raise CommandError("This removes files for good: say --yes where nobody can be asked.")
    for job in jobs:
        directory = job["directory"]
        kept = size(directory["size_bytes"]) if directory else "no files"
        print(f"J-{job['number']}  {job['name']}  {kept}", file=sys.stderr)
    return input("Delete these files for good? [y/N] ").strip().lower() in ("y", "yes")
