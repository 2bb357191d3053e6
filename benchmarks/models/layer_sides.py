"""The best plan of layers on workers and servers with any number of cuts, against which one cut is measured (RALP)."""

from collections.abc import Sequence

from agents.runtime.layer_plan import Layer, Setting


def best_sides(layers: Sequence[Layer], setting: Setting) -> tuple[float, tuple[bool, ...]]:
    """Return the seconds of the best step and which layers are on the workers, with any number of cuts.

    The data are on the workers. Dynamic programming over the chain, O(layers).
    """
    link = setting.workers / (setting.servers * setting.server_bytes_per_s)
    best: dict[bool, tuple[float, tuple[bool, ...]]] = {True: (0.0, ())}
    crossing_s = 0.0  # of the data, which the first layer gets where they are
    for layer in layers:
        following: dict[bool, tuple[float, tuple[bool, ...]]] = {}
        for on_worker in (True, False):
            own_s = layer.worker_s + 2 * layer.weight_bytes * link if on_worker else layer.server_s
            following[on_worker] = min(
                (total_s + own_s + (crossing_s if before != on_worker else 0.0), (*sides, on_worker))
                for before, (total_s, sides) in best.items()
            )
        best, crossing_s = following, 2 * setting.batch * layer.activation_bytes * link
    return min(best.values())
