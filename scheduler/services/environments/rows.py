"""The row of an environment: equal contents of one queue are one, whichever job brought them and how."""

import hashlib
import json
from datetime import datetime

from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Environment, Queue
from scheduler.services.environments.files import FileRefused, environment_files


def environment_of(spec: JobSpec, queue: Queue, *, at: datetime) -> Environment | None:
    """Return the environment that a job of a queue is to run in, stored if it is new; None for one that needs none.

    Of each queue by itself: a build runs code that its packages bring, as the user of the queue's jobs.

    Raises:
        SpecInvalid: Its files are gone since they were checked.
    """
    python = spec.python
    if python is None or python.venv:
        return None
    try:
        files = environment_files(spec)
    except FileRefused as refused:
        raise SpecInvalid([FieldError(pointer="/python", code=refused.code, detail=refused.detail)]) from None
    kind = "lock" if python.lock else "requirements"
    digest = hashlib.sha256(json.dumps([queue.pk, kind, sorted(files.items())]).encode()).hexdigest()
    made_of = {"queue": queue, "kind": kind, "files": files, "source": python.source}
    row, _ = Environment.objects.get_or_create(pk=digest, defaults={**made_of, "created_at": at, "used_at": at})
    if row.used_at < at:
        row.used_at = at
        row.save(update_fields=["used_at"])
    return row
