"""Removes sent folders that no job needs, contents that no folder holds, and what never arrived whole.

A pass may stop anywhere. Contents are removed while their rows are locked, and a request that sends a folder locks the
rows of its contents before it relies on their files: so a folder that is kept has all its contents.
"""

import shutil
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from agents.protocol.code import BLOBS_DIR
from scheduler.models import CodeBlob, CodeFolder, Job
from scheduler.models.job import ENDED
from scheduler.services.code.store import blob_path, incoming_before, manifest_path, manifest_read, store_path

ROWS_AT_ONCE = 400
INCOMING_KEPT = timedelta(days=1)


def code_unneeded() -> QuerySet[CodeFolder]:
    """Return the folders that no job needs which has not ended."""
    return CodeFolder.objects.filter(~Exists(Job.objects.filter(code=OuterRef("pk")).exclude(state__in=ENDED)))


def code_chunk_remove(old: QuerySet[CodeFolder], *, at: datetime) -> int:
    """Remove one of the folders, or else some of what is left over; return how much went, 0 when nothing is left.

    Args:
        old: Folders that may go, oldest first.
        at: Now.
    """
    return _folder_remove(old) or _blobs_remove() or _incoming_remove(at) or _orphans_claim(at)


def _folder_remove(old: QuerySet[CodeFolder]) -> int:
    return _oldest_remove(old) if old.exists() else 0  # looked at without a lock, as all that follows


@transaction.atomic
def _oldest_remove(old: QuerySet[CodeFolder]) -> int:
    folder = old.select_for_update().first()
    if folder is None:
        return 0
    manifest = manifest_read(folder.pk)
    hashes = sorted(manifest.sizes) if manifest is not None else []
    for start in range(0, len(hashes), ROWS_AT_ONCE):
        held = CodeBlob.objects.filter(pk__in=hashes[start : start + ROWS_AT_ONCE], folders__gt=0)
        held.update(folders=F("folders") - 1)
    # While its row is locked: after the commit the same folder may be sent again.
    manifest_path(folder.pk).unlink(missing_ok=True)
    folder.delete()
    return 1


def _blobs_remove() -> int:
    return _some_remove() if CodeBlob.objects.filter(folders=0).exists() else 0


@transaction.atomic
def _some_remove() -> int:
    blobs = list(CodeBlob.objects.select_for_update().filter(folders=0).order_by("pk")[:ROWS_AT_ONCE])
    for blob in blobs:
        blob_path(blob.pk).unlink(missing_ok=True)
    CodeBlob.objects.filter(pk__in=[blob.pk for blob in blobs]).delete()
    return len(blobs)


def _incoming_remove(at: datetime) -> int:
    paths = incoming_before(at - INCOMING_KEPT)
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
    return 0


def _orphans_claim(at: datetime) -> int:
    """Give contents without a row one, so that they are removed; a 256th of the store in each pass.

    A process that is killed while it keeps a folder leaves such contents.
    """
    part = store_path() / BLOBS_DIR / f"{int(at.timestamp() // 60) % 256:02x}"
    if not part.is_dir():
        return 0
    names = sorted(path.name for path in part.iterdir())
    for start in range(0, len(names), ROWS_AT_ONCE):
        some = names[start : start + ROWS_AT_ONCE]
        known = set(CodeBlob.objects.filter(pk__in=some).values_list("pk", flat=True))
        rows = [CodeBlob(sha256=name, num_bytes=0) for name in some if name not in known]
        CodeBlob.objects.bulk_create(rows, ignore_conflicts=True)
    return 0
