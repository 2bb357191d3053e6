"""What leads may ask about the live cluster: other quotas of one queue they lead, under the settings in force."""

from django.contrib.auth.models import User

from scheduler.core.model.errors import NotAllowed
from scheduler.models import Queue
from scheduler.models.queue import Role
from scheduler.selectors.visibility import access_of
from scheduler.services.whatif.checks import Asked
from scheduler.services.whatif.variant_checks import settings_in_force

REFUSAL = (
    "Only an admin may ask about the jobs of the cluster. Ask what other quotas of a queue that you lead would do, "
    "under the settings in force, or take a trace or a generator."
)


def led_queue(asked: Asked, *, actor: User) -> Queue:
    """Return the queue whose quotas a scenario of a lead varies.

    Raises:
        NotAllowed: It varies anything else.
    """
    quotas = {name for variant in asked.variants for name in variant["quotas"]}
    in_force = settings_in_force()
    is_plain = all(
        variant["servers"] == 0 and all(variant[name] == value for name, value in in_force.items())
        for variant in asked.variants
    )
    if asked.start["kind"] != "live" or not is_plain or len(quotas) != 1:
        raise NotAllowed(REFUSAL)
    queue = Queue.objects.filter(name=quotas.pop()).first()
    if queue is None or not access_of(actor).at_least(queue.pk, Role.LEAD):
        raise NotAllowed(REFUSAL)
    return queue
