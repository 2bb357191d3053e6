"""Command: register a server and write the configuration of its agent."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduler.core.model.errors import SchedulerError
from scheduler.management.broker_users import user_make
from scheduler.models import Server
from scheduler.ports import live_ports
from scheduler.services.cluster.servers import agent_config, server_register
from scheduler.services.permission import OPERATOR


def write_private(path: Path, data: Mapping[str, object]) -> None:
    """Write JSON with mode 0600: it holds keys. Replaces the file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(data, file, indent=2)
        file.write("\n")
    temporary.replace(path)


class Command(BaseCommand):
    """``manage.py add_server gpu-01`` writes ``gpu-01.json``."""

    help = "Register a server. Copy the written file to it and start its agent: AGENT_CONFIG=FILE python -m agents"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="name of the server, as people will see it")
        parser.add_argument("--config", type=Path, help="file to write; it holds the server's key (default: NAME.json)")
        parser.add_argument("--rack", default="", help="rack (or RDMA domain) that the server stands in")
        parser.add_argument("--redis-url", default="", help="broker as the server reaches it (default: ours)")
        parser.add_argument("--shared-dir", type=Path, help="directory that all servers and web share (default: ours)")
        parser.add_argument("--state-dir", type=Path, help="the agent's own directory on the server")
        parser.add_argument("--cpu-slots", type=int, help="slots to offer where there is no GPU")
        parser.add_argument("--cpu-ids", help="cores to use, such as 0,1,2 (default: all)")
        parser.add_argument(
            "--gpu-uuids",
            metavar="UUID,UUID",
            help="GPUs to offer, where several agents share a machine; nvidia-smi -L lists them (default: all)",
        )
        parser.add_argument(
            "--warm-processes",
            type=int,
            default=2,
            help="processes with torch imported that wait for the next jobs, about 300 MB each (default: 2)",
        )
        parser.add_argument("--memory-gib", type=float, help="memory to offer (default: most of the machine's)")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["config"] or Path(f"{options['name']}.json")
        if path.exists():
            raise CommandError(f"{path} exists already. Choose another file: a key is never overwritten.")
        cpu_ids = [int(text) for text in options["cpu_ids"].split(",")] if options["cpu_ids"] else None
        gpu_uuids = [text.strip() for text in options["gpu_uuids"].split(",")] if options["gpu_uuids"] else None
        memory_gib = options["memory_gib"]
        try:
            server = server_register(
                actor=OPERATOR, name=options["name"], rack=options["rack"], at=live_ports().clock.now()
            )
        except SchedulerError as error:
            raise CommandError(str(error)) from None
        broker, rights = _broker(server, seen_at=options["redis_url"] or settings.REDIS_URL)
        write_private(
            path,
            agent_config(
                server,
                redis_url=broker,
                shared_dir=str(options["shared_dir"] or settings.SHARED_DIR),
                state_dir=str(options["state_dir"] or settings.VAR_DIR / "agents" / options["name"]),
                cpu_slots=options["cpu_slots"],
                cpu_ids=cpu_ids,
                gpu_uuids=gpu_uuids,
                memory_bytes=int(memory_gib * 2**30) if memory_gib else None,
                warm_processes=options["warm_processes"],
            ),
        )
        self.stdout.write(f"{server.name} is registered. Start its agent: AGENT_CONFIG={path} python -m agents")
        self.stdout.write(f"At the broker it {rights}")


def _broker(server: Server, *, seen_at: str) -> tuple[str, str]:
    """Return the broker's URL for the server, and in words which rights it has there."""
    try:
        own = user_make(server.pk, redis_url=settings.REDIS_URL, seen_at=seen_at)
    except redis.RedisError as error:
        return seen_at, f"has our rights: no user of its own could be made ({error})."
    if not own:
        return seen_at, "has our rights: no user of its own can be made where users are not kept in a file (aclfile)."
    return own, "has a user of its own, for its own queue and reports alone."
