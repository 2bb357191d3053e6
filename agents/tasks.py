"""The one Celery task of an agent: hand a desired state to the agent's thread and return.

The thread checks the signature; here only arguments that cannot be a message are refused.
"""

import logging

from agents.celery_app import agent_step, app
from agents.protocol.signing import MAX_MESSAGE_BYTES

log = logging.getLogger(__name__)


@app.task(name="agents.apply_desired_state")  # type: ignore[untyped-decorator]  # Celery has no types
def apply_desired_state(message: object) -> None:
    """Queue a sealed desired state; safe to receive any number of times, in any order."""
    if not isinstance(message, str) or len(message) > MAX_MESSAGE_BYTES:
        log.warning("message_refused", extra={"type": type(message).__name__})
        return
    agent_step.receive(message)
