"""Logging: one JSON line an event, to standard error, with the fields that were bound to the unit of work."""

import logging
from typing import Any

import structlog

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def _extra_fields(_logger: Any, _name: str, event: dict[str, Any]) -> dict[str, Any]:  # structlog's own signature
    record = event.get("_record")
    if record is not None:
        event.update({key: value for key, value in record.__dict__.items() if key not in _STANDARD})
    return event


_SHARED: list[Any] = [  # structlog types a processor as Any
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _extra_fields,
]

LOGGING: dict[str, Any] = {  # the schema of logging.config
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": structlog.stdlib.ProcessorFormatter,
            "foreign_pre_chain": _SHARED,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(default=str),
            ],
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "uvicorn.access": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
    },
}
