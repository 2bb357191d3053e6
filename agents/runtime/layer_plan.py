"""Which layers of a network to compute once for all workers instead of on every one of them. Pure.

Convolutions have little weight and much compute, fully connected layers the reverse. A layer that is computed once, on
the batches of all workers, sends activations over the network instead of weights.

Source: Park et al., "Accelerated Training for CNN Distributed Deep Learning through Automatic Resource-Aware Layer
Placement" (RALP), arXiv 1901.05803. Its body is not public in a form that we could follow: costs and search are a
reconstruction from the abstract.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# A cut that gains less is not worth its trouble.
LEAST_GAIN = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One unit of a chain: a cut may follow it.

    Attributes:
        weight_bytes: Its parameters.
        activation_bytes: What it gives on, of one sample.
        worker_s: Forward and backward on a worker, of its batch.
        server_s: The same where it is computed once, of the batches of all workers.
    """

    weight_bytes: float
    activation_bytes: float
    worker_s: float
    server_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a plan is made for.

    Attributes:
        workers: Processes that train.
        batch: Samples of one worker's mini-batch.
        worker_bytes_per_s, server_bytes_per_s: Links of a worker, and of each server.
        servers: Servers that share the traffic.
    """

    workers: int
    batch: int
    worker_bytes_per_s: float
    server_bytes_per_s: float
    servers: int = 1


def bytes_per_worker(layers: Sequence[Layer], cut: int, *, batch: int) -> float:
    """Return what a worker sends and gets in a step with the first ``cut`` layers on it.

    Weights both ways, and the activation of the cut with its gradient; all layers on the workers is plain data
    parallel.
    """
    weights = sum(layer.weight_bytes for layer in layers[:cut])
    activation = layers[cut - 1].activation_bytes if cut < len(layers) else 0.0
    return 2 * weights + 2 * batch * activation


def step_s(layers: Sequence[Layer], cut: int, setting: Setting) -> float:
    """Return the seconds of a step with the first ``cut`` layers on the workers; nothing overlaps."""
    traffic = bytes_per_worker(layers, cut, batch=setting.batch)
    network_s = max(
        traffic / setting.worker_bytes_per_s,
        setting.workers * traffic / (setting.servers * setting.server_bytes_per_s),
    )
    compute_s = sum(layer.worker_s for layer in layers[:cut]) + sum(layer.server_s for layer in layers[cut:])
    return compute_s + network_s


def best_cut(layers: Sequence[Layer], setting: Setting) -> int:
    """Return after how many layers to cut; all of them where cutting gains too little."""
    plain_s = step_s(layers, len(layers), setting)
    cut = min(range(1, len(layers) + 1), key=lambda cut: step_s(layers, cut, setting))
    return cut if step_s(layers, cut, setting) <= (1 - LEAST_GAIN) * plain_s else len(layers)
