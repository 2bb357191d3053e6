"""Where to cut a network between the ranks and the one that computes the rest: the figures of VGG16, and all sides."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.runtime.layer_plan import Layer, Setting, best_cut, bytes_per_worker, step_s
from benchmarks.models.layer_sides import best_sides
from scheduler.placement.skew import Skew
from tests.support.suite.examples import tried

# Of VGG16 after pool1 ... pool5, fc6, fc7, fc8: parameters, activation of one sample, GMAC forward of one sample.
VGG16 = [
    (38_720, 802_816, 1.936),
    (221_440, 401_408, 2.775),
    (1_475_328, 200_704, 4.624),
    (5_899_776, 100_352, 4.625),
    (7_079_424, 25_088, 1.386),
    (102_764_544, 4_096, 0.103),
    (16_781_312, 4_096, 0.017),
    (4_097_000, 1_000, 0.004),
]
POOL3, POOL4, POOL5, WHOLE = 3, 4, 5, 8
WORKER_GMAC_S = 5_000.0
TEN_GBIT = 1.25e9


def vgg16(server_gmac_s: float, *, workers: int = 4, batch: int = 32) -> list[Layer]:
    """Return its layers; the backward pass is twice the forward one."""
    return [
        Layer(
            weight_bytes=4.0 * weights,
            activation_bytes=4.0 * activation,
            worker_s=3 * batch * gmac / WORKER_GMAC_S,
            server_s=3 * batch * workers * gmac / server_gmac_s,
        )
        for weights, activation, gmac in VGG16
    ]


def setting(workers: int = 4) -> Setting:
    """Return ten Gbit/s and one server."""
    return Setting(workers=workers, batch=32, worker_bytes_per_s=TEN_GBIT, server_bytes_per_s=TEN_GBIT)


@pytest.mark.parametrize(
    ("cut", "megabytes"), [(POOL3, 65.3), (POOL4, 86.8), (POOL5, 124.1), (6, 940.9), (7, 1075.1), (WHOLE, 1106.9)]
)
def test_bytes_of_vgg16(cut: int, megabytes: float) -> None:
    """Batches of 32 in single precision; 138.36 million parameters."""
    assert sum(weights for weights, _, _ in VGG16) == pytest.approx(138.36e6, rel=1e-3)
    assert bytes_per_worker(vgg16(5_000), cut, batch=32) / 1e6 == pytest.approx(megabytes, abs=0.1)


@pytest.mark.parametrize(
    ("server_gmac_s", "cut", "seconds"),
    [
        (1e12, POOL3, 0.388),
        (5_000, POOL4, 0.662),
        (1_000, POOL5, 0.740),
        (200, POOL5, 0.930),
        (50, POOL5, 1.644),
        (5, WHOLE, 3.839),
    ],
)
def test_best_cut_depends_on_who_computes_the_rest(server_gmac_s: float, cut: int, seconds: float) -> None:
    """Four workers at 10 Gbit/s: the least bytes are not the best cut where the server is slow."""
    layers = vgg16(server_gmac_s)

    assert best_cut(layers, setting()) == cut
    assert step_s(layers, cut, setting()) == pytest.approx(seconds, abs=0.002)


def test_network_with_little_weight_is_left_alone() -> None:
    """ResNet-50 at 56 Gbit/s: 188.5 instead of 204.4 MB a worker saves less than 3 % of a step."""
    link = 7e9
    layers = [
        Layer(weight_bytes=4 * 23.5e6, activation_bytes=4 * 2048, worker_s=3 * 32 * 4.1 / 5_000, server_s=0.3),
        Layer(weight_bytes=4 * 2.05e6, activation_bytes=4 * 1000, worker_s=1e-4, server_s=4e-4),
    ]
    fast = Setting(workers=1, batch=32, worker_bytes_per_s=link, server_bytes_per_s=link)

    assert best_cut(layers, fast) == len(layers)
    megabytes = [bytes_per_worker(layers, cut, batch=32) / 1e6 for cut in (1, 2)]
    assert megabytes == pytest.approx([188.5, 204.4], abs=0.1)


@pytest.mark.parametrize(("workers", "plain_s", "cut_s"), [(2, 1.77, 0.20), (4, 3.54, 0.40), (8, 7.08, 0.79)])
def test_the_servers_link_carries_what_all_workers_send(workers: int, plain_s: float, cut_s: float) -> None:
    """VGG16 at 10 Gbit/s: a step is as long as workers times their bytes take over one link, were computing free."""
    layers = [replace(layer, worker_s=0.0, server_s=0.0) for layer in vgg16(5_000)]

    assert step_s(layers, WHOLE, setting(workers)) == pytest.approx(plain_s, abs=0.005)
    assert step_s(layers, POOL5, setting(workers)) == pytest.approx(cut_s, abs=0.005)


def test_without_its_heavy_layers_a_network_need_not_be_consolidated() -> None:
    """Of VGG16 cut after pool5 the largest tensor is 9.4 of 58.9 MB: a skew of .16, below .3; before it was .74."""
    largest_bytes, conv_bytes = 4.0 * 512 * 512 * 9, sum(layer.weight_bytes for layer in vgg16(5_000)[:POOL5])

    assert (largest_bytes / 1e6, conv_bytes / 1e6) == pytest.approx((9.4, 58.9), abs=0.05)
    assert largest_bytes / conv_bytes == pytest.approx(0.16, abs=0.005)
    assert largest_bytes / conv_bytes < Skew().pack_limit < 0.74


def test_three_layers_by_hand() -> None:
    """All on the worker 4.14 s, the last one moved 2.18 s, the last two 4.28 s."""
    layers = [
        Layer(weight_bytes=1e6, activation_bytes=8e6, worker_s=1.0, server_s=3.0),
        Layer(weight_bytes=1e6, activation_bytes=2e6, worker_s=1.0, server_s=3.0),
        Layer(weight_bytes=100e6, activation_bytes=0.01e6, worker_s=0.1, server_s=0.1),
    ]
    one = Setting(workers=1, batch=1, worker_bytes_per_s=1e8, server_bytes_per_s=1e8)

    seconds, on_workers = best_sides(layers, one)

    assert seconds == pytest.approx(2.18)
    assert on_workers == (True, True, False)
    assert [step_s(layers, cut, one) for cut in (1, 3)] == pytest.approx([4.28, 4.14])


sizes = st.floats(0.0, 1e8)
times = st.floats(0.0, 5.0)
layers_of = st.lists(
    st.builds(Layer, weight_bytes=sizes, activation_bytes=sizes, worker_s=times, server_s=times),
    min_size=1,
    max_size=12,
)


@tried(500)
@given(layers=layers_of, workers=st.integers(1, 8), batch=st.integers(1, 4))
def test_any_number_of_cuts_is_as_good_as_trying_all(layers: list[Layer], workers: int, batch: int) -> None:
    """Dynamic programming against all sides of up to twelve layers."""
    where = Setting(workers=workers, batch=batch, worker_bytes_per_s=1e8, server_bytes_per_s=1e8)
    link = workers / 1e8
    sides = np.array(list(product((True, False), repeat=len(layers))))
    on_worker = np.array([layer.worker_s + 2 * layer.weight_bytes * link for layer in layers])
    crossing = np.array([2 * batch * layer.activation_bytes * link for layer in layers[:-1]])
    # The data are on the workers and cost nothing to fetch from there.
    seconds = np.where(sides, on_worker, [layer.server_s for layer in layers]).sum(axis=1)
    seconds += ((sides[:, 1:] != sides[:, :-1]) * crossing).sum(axis=1)

    assert best_sides(layers, where)[0] == pytest.approx(float(seconds.min()))


def test_another_number_of_workers_moves_the_cut() -> None:
    """The server works for all of them: with many its compute outweighs what the network saves."""
    few, many = best_cut(vgg16(5_000, workers=2), setting(2)), best_cut(vgg16(5_000, workers=64), setting(64))

    assert few <= many
