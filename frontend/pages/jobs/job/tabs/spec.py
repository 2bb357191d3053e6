"""Spec: what was submitted with every default filled in, as YAML, JSON and a command that submits it again."""

import json
from typing import TypedDict

from frontend.pages.jobs.subject import Subject
from frontend.pages.jobs.submit.preview import commands_of_job, curl_of_spec
from frontend.pages.jobs.submit.spec_yaml import spec_as_yaml


class SpecTab(TypedDict):
    """The variables of its template."""

    as_yaml: str
    as_json: str
    curl: str
    commands: str


def context(subject: Subject) -> SpecTab:
    """Return the variables of the template."""
    spec = subject.detail["spec"]
    return {
        "as_yaml": spec_as_yaml(spec),
        "as_json": json.dumps(spec, indent=2, ensure_ascii=False),
        "curl": curl_of_spec(subject.request, spec),
        "commands": commands_of_job(subject.request, subject.key),
    }
