"""Ready-made scenarios, offered where a user has none yet; and the live settings as a variant.

A scenario is plain JSON here: ``scheduler.services.whatif`` checks it, and refuses text that should be a number.
"""

from dataclasses import dataclass

from frontend.components.devices import DeviceWord
from scheduler.models import Cluster, Queue
from scheduler.selectors.rows import Json

POLICIES = ("srtf", "ftf", "fifo")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyScenario:
    """A scenario that one button asks.

    Attributes:
        key: Its name in the URL of the form.
        title: The question.
        text: What it compares, one sentence.
        body: The scenario.
        of_cluster: Whether only admins may ask it.
    """

    key: str
    title: str
    text: str
    body: Json
    of_cluster: bool


def live_variant(cluster: Cluster) -> Json:
    """Return the settings in force as a variant."""
    return {
        "policy": cluster.policy,
        "policy_options": cluster.policy_options,
        "locality": cluster.locality,
        "locality_options": cluster.locality_options,
        "mechanism": cluster.mechanism,
        "mechanism_options": cluster.mechanism_options,
        "introspection": list(getattr(cluster, "introspection", [])),
        "introspection_options": dict(getattr(cluster, "introspection_options", {})),
        "min_run_s": cluster.min_run_s,
    }


def quota_scenario(cluster: Cluster, queue: Queue, device: DeviceWord) -> ReadyScenario:
    """Return the first question of a lead: half as much quota again for the queue, on the live cluster."""
    live, more = live_variant(cluster), queue.quota_gpus + max(1, queue.quota_gpus // 2)
    quotas = [queue.quota_gpus, more]
    return ReadyScenario(
        key=f"quota-{queue.pk}",
        title=f"What would {device.counted(more)} of quota change for {queue.name}?",
        text=f"The jobs that run and wait now, with {device.counted(queue.quota_gpus)} as today and with {more}.",
        body={
            "name": f"More quota for {queue.name}"[:120],
            "start": {"kind": "live"},
            "variants": [{**live, "quotas": {queue.name: gpus}} for gpus in quotas],
            "seeds": [1, 2],
        },
        of_cluster=False,
    )


def ready_scenarios(cluster: Cluster, device: DeviceWord, *, capacity: str) -> list[ReadyScenario]:
    """Return three scenarios that begin with the settings in force; ``capacity`` says which GPUs are counted."""
    live = live_variant(cluster)
    others = [{**_same(live), "policy": name} for name in POLICIES if name != cluster.policy]
    week = "generate:philly?days=7&load=0.9&queues=4"
    return [
        ReadyScenario(
            key="policies",
            title="Which policy ends the present jobs soonest?",
            text=f"The jobs that run and wait now, under {cluster.policy} and {len(others)} other policies.",
            body={"name": "Which policy now?", "start": {"kind": "live"}, "variants": [live, *others], "seeds": [1, 2]},
            of_cluster=True,
        ),
        ReadyScenario(
            key="servers",
            title="What would two more servers change?",
            text=f"A generated week at 90 % load on this cluster ({capacity}): as it is, with two servers more, "
            "with 20 % more jobs.",
            body={
                "name": "Two servers more",
                "start": {"kind": "generator", "text": week, "cluster": None},
                "variants": [live, {**live, "servers": 2}, {**live, "load": 1.2}],
                "seeds": [1, 2, 3],
            },
            of_cluster=False,
        ),
        ReadyScenario(
            key="week",
            title="How do policies compare on a busy week?",
            text=f"A generated week of four teams at 90 % load on 16 servers of {device.counted(8)}, with three seeds.",
            body={
                "name": "Policies on a busy week",
                "start": {
                    "kind": "generator",
                    "text": week,
                    "cluster": {"servers": 16, "gpus": 8, "cpus": 24, "memory_gb": 500},
                },
                "variants": [live, *others],
                "seeds": [1, 2, 3],
            },
            of_cluster=False,
        ),
    ]


def _same(live: Json) -> Json:
    """Return the variant without the options of its policy, which mean nothing to another policy."""
    return {**live, "policy_options": {}}
