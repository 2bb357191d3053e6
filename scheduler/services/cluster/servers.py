"""Registers, renames, labels, drains, undrains and removes servers, and confirms their size.

``scheduler.live`` decides which are up or lost.
"""

import re
import secrets
import string
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypedDict

from django.db import IntegrityError, transaction
from django.db.models import Max

from scheduler.core.model.errors import Conflict, NotFound
from scheduler.models import Cluster, Lease, Server
from scheduler.models.server import ServerState
from scheduler.notify import request_round, touch_cluster
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems, reason_given
from scheduler.services.permission import Doer, require_admin

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
NAME_CHARS = 63
RACK = re.compile(r"[A-Za-z0-9._-]*")
RACK_CHARS = 40
KEY_BYTES = 32
LABEL_CHARS = 40
MOST_LABELS = 10
_ID_LETTERS = string.ascii_lowercase + string.digits


def server_register(*, actor: Doer, name: str, rack: str = "", may_mix_queues: bool = False, at: datetime) -> Server:
    """Register a server under a new id and key; rounds may use it once its agent reports.

    ``may_mix_queues`` is as in ``server_mix_queues``.

    Raises:
        NotAllowed: ``actor`` is neither an admin nor the operator.
        SpecInvalid: A bad or taken name.
    """
    require_admin(actor, "add servers")
    problems = Problems()
    problems.name("name", name, pattern=NAME, most=NAME_CHARS, right="letters, digits, '.' and '-'")
    if len(rack) > RACK_CHARS or not RACK.fullmatch(rack):
        problems.add("rack", "characters", f"rack may hold at most {RACK_CHARS} letters, digits, '.', '_' and '-'.")
    problems.refuse()
    cluster_row()
    try:
        with transaction.atomic():
            Cluster.objects.select_for_update().get(pk=1)  # one at a time: numbers have no gaps
            highest = Server.with_removed.aggregate(highest=Max("number"))["highest"] or 0
            server = Server.objects.create(
                # Ids and keys are secrets: they come from the system's source, not from the port of ids.
                id="s" + "".join(secrets.choice(_ID_LETTERS) for _ in range(11)),
                number=highest + 1,
                name=name,
                rack=rack,
                may_mix_queues=may_mix_queues,
                state_changed_at=at,
                key_hex=secrets.token_hex(KEY_BYTES),
                created_at=at,
            )
            _record(server, actor=actor, at=at, reason="register", before="", why="")
    except IntegrityError:
        problems.add("name", "taken", f"There is a server {name} already.")
        problems.refuse()
    return server


def server_change(
    *, actor: Doer, server: Server, name: str, labels: Sequence[str], reason: str, at: datetime
) -> Server:
    """Give a server another name and other labels; jobs that run on it go on.

    Args:
        labels: Words for readers of pages and REST, all of them; no round looks at them.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: A bad or taken name, a bad label, no reason.
    """
    require_admin(actor, "rename and label servers")
    problems = Problems()
    reason = problems.reason(reason)
    problems.name("name", name, pattern=NAME, most=NAME_CHARS, right="letters, digits, '.' and '-'")
    kept = list(dict.fromkeys(problems.text("labels", label, least=1, most=LABEL_CHARS) for label in labels))
    if any("," in label for label in kept):
        problems.add("labels", "characters", "A label has no comma: on the page commas stand between labels.")
    if len(kept) > MOST_LABELS:
        problems.add("labels", "too_many", f"A server has at most {MOST_LABELS} labels, not {len(kept)}.")
    problems.refuse()
    try:
        with transaction.atomic():
            server = _locked(server)
            before: dict[str, object] = {"name": server.name, "labels": server.labels}
            after: dict[str, object] = {"name": name, "labels": kept}
            if before == after:
                return server
            server.name, server.labels = name, kept
            server.save(update_fields=["name", "labels"])
            data = {"before": before, "after": after, "reason": reason}
            event_record(kind="server_change", actor=actor, at=at, reason="change", data=data, server=server)
            touch_cluster()
    except IntegrityError:
        problems.add("name", "taken", f"There is a server {name} already.")
        problems.refuse()
    return server


def server_remove(*, actor: Doer, server: Server, reason: str, at: datetime) -> Server:
    """Remove a server for good. Its jobs, GPU-hours, rounds and events keep its name; its key is void.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: No reason.
        Conflict: A job holds GPUs or memory of it, or it is neither drained nor lost nor silent since it was added.
    """
    require_admin(actor, "remove servers")
    reason = reason_given(reason)
    with transaction.atomic():
        server = _locked(server)
        if server.state == ServerState.UP:
            raise Conflict(f"{server.name} is up and takes jobs. Drain it first, then remove it.")
        jobs = Lease.objects.filter(server=server, closed_at=None).values("attempt").distinct().count()
        if jobs:
            still = "1 job still runs" if jobs == 1 else f"{jobs} jobs still run"
            raise Conflict(f"{still} on {server.name}. Remove it when nothing does.")
        data = {"name": server.name, "state": server.state, "reason": reason}
        server.removed_at, server.state, server.key_hex = at, ServerState.LOST, secrets.token_hex(KEY_BYTES)
        server.save(update_fields=["removed_at", "state", "key_hex"])
        event_record(kind="server_removal", actor=actor, at=at, reason="remove", data=data, server=server)
        touch_cluster()
        request_round("server")
    return server


def server_drain(*, actor: Doer, server: Server, reason: str, at: datetime) -> Server:
    """Move the server's jobs away and start nothing new on it; draining again changes nothing.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: No reason was given.
        Conflict: The server is lost: nothing runs on it.
    """
    require_admin(actor, "drain servers")
    problems = Problems()
    detail = problems.reason(reason)
    problems.refuse()
    with transaction.atomic():
        server = _locked(server)
        if server.state == ServerState.LOST:
            raise Conflict(f"{server.name} is lost: nothing runs on it. It can be drained once it reports.")
        if server.state != ServerState.DRAINING:
            _move(server, ServerState.DRAINING, actor=actor, at=at, reason="drain", detail=detail, why=detail)
    return server


def server_undrain(*, actor: Doer, server: Server, reason: str, at: datetime) -> Server:
    """Let rounds use a drained server again.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: No reason was given.
        Conflict: The server is not drained.
    """
    require_admin(actor, "undrain servers")
    reason = reason_given(reason)
    with transaction.atomic():
        server = _locked(server)
        if server.state != ServerState.DRAINING:
            raise Conflict(f"{server.name} is not drained: it is {server.state}.")
        to = ServerState.JOINING if server.last_report_at is None else ServerState.UP
        _move(server, to, actor=actor, at=at, reason="undrain", detail="", why=reason)
    return server


def server_size_confirm(*, actor: Doer, server: Server, size: Mapping[str, int], reason: str, at: datetime) -> Server:
    """Believe the size that a server claims, and up to as much again as ``scheduler.live.servers.inventory`` allows.

    Args:
        size: What the admin read, so that no other claim is confirmed.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: No reason was given.
        Conflict: The server does not claim this size.
    """
    require_admin(actor, "confirm the sizes of servers")
    reason = reason_given(reason)
    with transaction.atomic():
        server = _locked(server)
        if server.claimed_size is None or server.claimed_size != dict(size):
            raise Conflict(f"{server.name} does not claim this size: read it again.")
        server.trusted_size, server.claimed_size = server.claimed_size, None
        server.save(update_fields=["trusted_size", "claimed_size"])
        data = {"size": size, "reason": reason}
        event_record(kind="server_size", actor=actor, at=at, reason="confirmed", data=data, server=server)
        touch_cluster()
    return server


def server_mix_queues(*, actor: Doer, server: Server, allowed: bool, reason: str, at: datetime) -> Server:
    """Let jobs of several queues run on a server although nothing keeps them apart there, or no longer.

    Changes nothing while its jobs are kept apart. What runs goes on.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: No reason was given.
    """
    require_admin(actor, "let queues mix on servers")
    reason = reason_given(reason)
    with transaction.atomic():
        server = _locked(server)
        if server.may_mix_queues != allowed:
            server.may_mix_queues = allowed
            server.save(update_fields=["may_mix_queues"])
            before, after = {"may_mix_queues": not allowed}, {"may_mix_queues": allowed}
            data = {"before": before, "after": after, "reason": reason}
            event_record(kind="server_mix", actor=actor, at=at, reason="change", data=data, server=server)
            touch_cluster()
            request_round("server")
    return server


class AgentConfigFile(TypedDict):
    """The agent's configuration file, as ``agents/config.py`` reads it."""

    server_id: str
    server_name: str
    key_hex: str
    redis_url: str
    shared_dir: str
    state_dir: str
    cpu_slots: int | None
    cpu_ids: list[int] | None
    gpu_uuids: list[str] | None
    memory_bytes: int | None
    warm_processes: int


def agent_config(
    server: Server,
    *,
    redis_url: str,
    shared_dir: str | Path,
    state_dir: str | Path,
    cpu_slots: int | None = None,
    cpu_ids: list[int] | None = None,
    gpu_uuids: list[str] | None = None,
    memory_bytes: int | None = None,
    warm_processes: int = 0,
) -> AgentConfigFile:
    """Return the content of the agent's configuration file as plain JSON data.

    It holds the server's key: the file must be readable by its owner alone.

    Args:
        redis_url: Broker as the server reaches it; ``redis://``, ``rediss://`` or ``unix://``.
        cpu_slots: Slots to offer where there is no GPU; None for the agent's default.
        cpu_ids: Logical CPUs to use; None for all.
        gpu_uuids: GPUs to offer, where several agents share a machine; None for all.
        memory_bytes: Memory to offer; None for most of the machine's.
        warm_processes: Processes with torch imported that wait for the next jobs.
    """
    return {
        "server_id": server.pk,
        "server_name": server.name,
        "key_hex": server.key_hex,
        "redis_url": redis_url,
        "shared_dir": str(shared_dir),
        "state_dir": str(state_dir),
        "cpu_slots": cpu_slots,
        "cpu_ids": cpu_ids,
        "gpu_uuids": gpu_uuids,
        "memory_bytes": memory_bytes,
        "warm_processes": warm_processes,
    }


def _locked(server: Server) -> Server:
    """Return the row, locked. Raises NotFound where another admin removed the server meanwhile."""
    found = Server.objects.select_for_update().filter(pk=server.pk).first()
    if found is None:
        raise NotFound(f"{server.name} was removed a moment ago.")
    return found


def _move(server: Server, to: ServerState, *, actor: Doer, at: datetime, reason: str, detail: str, why: str) -> None:
    """Write the state, unless it changed meanwhile; ``detail`` stays beside it, ``why`` is in the event alone."""
    before = server.state
    found = Server.objects.filter(pk=server.pk, state=before)
    if found.update(state=to, state_reason=detail, state_changed_at=at) != 1:
        raise Conflict(f"{server.name} changed a moment ago.")
    server.state, server.state_reason, server.state_changed_at = to, detail, at
    _record(server, actor=actor, at=at, reason=reason, before=before, why=why)


def _record(server: Server, *, actor: Doer, at: datetime, reason: str, before: str, why: str) -> None:
    event_record(
        kind="server_state",
        actor=actor,
        at=at,
        reason=reason,
        data={"detail": why} if why else {},
        server=server,
        old_state=before,
        new_state=server.state,
    )
    touch_cluster()
    request_round("server")
