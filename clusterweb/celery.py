"""Celery application of the control plane: beat, the scheduler's worker, the workers of simulations and notices.

Agents have an application of their own (``agents.celery_app``) that never loads Django.
"""

import os

from celery import Celery
from celery.signals import after_task_publish, beat_init
from kombu import Queue  # type: ignore[attr-defined]  # re-exported lazily

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clusterweb.settings")

from django.conf import settings

from clusterweb.config.alive import alive
from clusterweb.config.redis import celery_broker_url

app = Celery("clusterweb")
app.conf.update(
    broker_url=celery_broker_url(settings.REDIS_URL),
    broker_connection_retry_on_startup=True,
    task_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    task_acks_late=False,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    # No keys of unacknowledged messages that all workers share, no redelivery: beat sends a lost task again.
    broker_transport_options={"ack_emulation": False},
    # An exchange each: what a worker writes at the broker is of its own queues.
    task_queues=[
        Queue(name, exchange=name, routing_key=name)  # type: ignore[no-untyped-call]  # kombu has no types
        for name in ("scheduler", "simulations", "notices")
    ],
    task_default_queue="scheduler",
    task_routes={"scheduler.simulate_*": {"queue": "simulations"}},
    beat_schedule_filename=str(settings.VAR_DIR / "beat-schedule"),
    beat_schedule={
        "round": {
            "task": "scheduler.run_round",
            "schedule": settings.ROUND_S,
            "args": ["beat"],
            # A beat that waited for most of a period is worthless: the next one is there already.
            "options": {"queue": "scheduler", "expires": max(1.0, settings.ROUND_S * 0.9)},
        },
        "roll-up": {
            "task": "scheduler.roll_up_samples",
            "schedule": 10.0,
            "options": {"queue": "scheduler", "expires": 9.0},
        },
        "remove-old": {
            "task": "scheduler.remove_old_rows",
            "schedule": 60.0,
            "options": {"queue": "scheduler", "expires": 50.0},
        },
    },
)
app.autodiscover_tasks(["scheduler"])


@beat_init.connect(weak=False)  # type: ignore[untyped-decorator]  # celery has no stubs
def _beat_begins(**_: object) -> None:
    """Let beat say that it is alive with each task that the broker took, one a minute at least."""
    after_task_publish.connect(lambda **_: alive(settings.VAR_DIR, "beat"), weak=False)
