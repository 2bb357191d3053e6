"""Keeps the snapshot of a finished round for the simulations worker, which plans it by the shadow policy.

Called after the round is applied and the servers are told, so it delays nothing. When the worker is behind, rounds are
left out.
"""

import io
import json
import logging
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

import numpy as np
from django.db import DatabaseError, transaction

from scheduler.core.model.holds import holds_from, holds_json
from scheduler.core.model.profile import Profile
from scheduler.core.model.tables import JobTable, Placements, QueueTable, ServerTable, Snapshot
from scheduler.models import Shadow, ShadowRound

log = logging.getLogger(__name__)

MOST_WAITING = 5  # rounds
_TABLES = {"jobs": JobTable, "servers": ServerTable, "queues": QueueTable, "held": Placements, "releasing": Placements}


def shadow_offer(snapshot: Snapshot, *, number: int, at: datetime) -> None:
    """Keep the snapshot of round ``number`` for the shadow, if there is one. Never raises: the round is over."""
    try:
        version = Shadow.objects.filter(pk=1, since__isnull=False).values_list("version", flat=True).first()
        if version is None or ShadowRound.objects.filter(planned_at=None).count() >= MOST_WAITING:
            return
        with transaction.atomic():
            ShadowRound.objects.create(number=number, version=version, at=at, snapshot=snapshot_pack(snapshot))
    except DatabaseError as error:
        log.warning("shadow_not_offered", extra={"round": number, "error": str(error)})


def snapshot_pack(snapshot: Snapshot) -> bytes:
    """Return all columns of a snapshot as one archive, without the trials of introspection."""
    arrays: dict[str, Any] = {"now_s": np.array(snapshot.now_s), "round_s": np.array(snapshot.round_s)}
    for name in _TABLES:
        table = getattr(snapshot, name)
        for field in fields(table):
            column = getattr(table, field.name)
            if field.name == "profiles":
                text = json.dumps([asdict(profile) for profile in column])
                column = np.frombuffer(text.encode(), dtype=np.uint8)
            arrays[f"{name}.{field.name}"] = column
    arrays["holds"] = np.frombuffer(json.dumps(holds_json(snapshot.arrays, snapshot.after)).encode(), dtype=np.uint8)
    arrays["barred"] = np.array(snapshot.barred, dtype=np.int64).reshape(-1, 2)
    arrays["prepared"] = np.frombuffer(json.dumps(snapshot.prepared).encode(), dtype=np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def snapshot_unpack(data: bytes) -> Snapshot:
    """Return the snapshot that ``snapshot_pack`` wrote."""
    with np.load(io.BytesIO(data)) as arrays:
        tables: dict[str, Any] = {}
        for name, shape in _TABLES.items():
            columns: dict[str, Any] = {field.name: arrays[f"{name}.{field.name}"] for field in fields(shape)}
            if "profiles" in columns:
                rows = json.loads(columns["profiles"].tobytes())
                columns["profiles"] = tuple(
                    Profile(**{key: _tuples(value) for key, value in row.items()}) for row in rows
                )
            tables[name] = shape(**columns)
        pairs = arrays["barred"].tolist() if "barred" in arrays else []  # a handover of the release before has none
        barred = tuple((queue, server) for queue, server in pairs)
        tables |= holds_from(json.loads(arrays["holds"].tobytes()) if "holds" in arrays else {})
        prepared = _tuples(json.loads(arrays["prepared"].tobytes())) if "prepared" in arrays else ()
        tables |= {"barred": barred, "prepared": prepared}
        return Snapshot(now_s=float(arrays["now_s"]), round_s=float(arrays["round_s"]), **tables)


def _tuples(value: Any) -> Any:  # JSON lists, nested
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
