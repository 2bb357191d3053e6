"""Spec: what was submitted with every default filled in, as YAML, JSON and a command that submits it again."""

import json

from frontend.pages.jobs.subject import Subject
from frontend.pages.jobs.submit.preview import commands_of_job, curl_of_spec
from frontend.pages.jobs.submit.spec_yaml import spec_as_yaml


def context(subject: Subject) -> dict[str, object]:
    """Return the variables of the template."""
    spec = subject.job.spec
    return {
        "as_yaml": spec_as_yaml(spec),
        "as_json": json.dumps(spec, indent=2, ensure_ascii=False),
        "curl": curl_of_spec(subject.request, spec),
        "commands": commands_of_job(subject.request, subject.key),
    }
