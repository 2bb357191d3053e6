"""The verb ``import``: a job written for another scheduler becomes a spec."""

import json
import sys
from argparse import Namespace
from pathlib import Path

from clusterweb.cli.jobs import say
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError


def import_(given: Namespace) -> int:
    """Print the spec as JSON, which ``submit`` takes; what did not map goes to standard error."""
    try:
        text = sys.stdin.read() if given.file == "-" else Path(given.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{given.file} cannot be read: {error}") from None
    body = json.dumps({"text": text, "queue": given.queue or ""}).encode()
    answer = Client().post("jobs/import", body)
    for entry in answer["unmapped"]:
        print(f"not mapped: {entry['source']}\n  {entry['why']}", file=sys.stderr)
    for problem in answer["problems"]:
        print(f"to mend: {problem['pointer']}: {problem['detail']}", file=sys.stderr)
    say(json.dumps(answer["spec"] if given.output == "text" else answer, indent=2))
    return 1 if answer["problems"] else 0
