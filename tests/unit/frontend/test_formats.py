"""Numbers, sizes and times as the pages write them."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from frontend.components.devices import device_word
from frontend.components.formats import (
    clock,
    counted,
    data_size,
    duration,
    gpu_hours,
    joined,
    number,
    percent,
    relative,
    rough,
    signed,
    significant,
)

NOW = datetime(2025, 11, 22, 14, 32, tzinfo=UTC)


def spaced(text: str) -> str:
    """Return ``text`` with all kinds of spaces made plain."""
    return text.replace("\u00a0", " ").replace("\u202f", " ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "250 ms"),
        (2.5, "2.5 s"),
        (40, "40 s"),
        (59.6, "1 min"),
        (110, "1 min 50 s"),
        (1020, "17 min"),
        (4080, "1 h 8 min"),
        (3599, "1 h"),
        (183_600, "2 d 3 h"),
        (None, "not measured"),
    ],
)
def test_durations_name_their_two_largest_units(seconds: float | None, text: str) -> None:
    """A length of time is never longer than it needs to be, and never a bare number."""
    assert spaced(duration(seconds)) == text


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (0, "0"),
        (0.004, "under 0.01"),
        (0.083, "0.08"),
        (0.5, "0.50"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (4212.4, "4 212"),
        (None, "not measured"),
    ],
)
def test_gpu_hours_have_three_digits_and_no_more_than_hundredths(hours: float | None, text: str) -> None:
    """Nothing shorter than half a minute of one GPU is told."""
    assert spaced(gpu_hours(hours)) == text


@pytest.mark.parametrize(
    ("seconds", "value", "unit"), [(40, "40", "s"), (90, "1.5", "min"), (7200, "2", "h"), (400_000, "4.6", "d")]
)
def test_rough_times_have_one_unit(seconds: float, value: str, unit: str) -> None:
    """A tile shows one number and one unit."""
    assert rough(seconds) == (value, unit)


def test_numbers_have_thin_spaces_and_a_true_minus() -> None:
    """Thousands are apart, a negative number has a minus sign, zero has none."""
    assert spaced(number(4212)) == "4 212"
    assert number(-3) == "\u22123"
    assert number(-0.2) == "0"
    assert signed(4) == "+4"
    assert signed(0) == "0"
    assert spaced(percent(0.931)) == "93 %"
    assert significant(0.01234) == "0.0123"
    assert significant(3.4159) == "3.42"


def test_counts_agree_with_their_noun() -> None:
    """One job, seven jobs; a CPU slot is never called a GPU."""
    assert spaced(counted(1, "job")) == "1 job"
    assert spaced(counted(7, "job")) == "7 jobs"
    assert spaced(device_word(["cpu_slot"]).counted(2)) == "2 CPU slots"
    said = device_word(["cpu_slot"]).said
    assert (
        said("1 in 10 8-GPU jobs holds 2 GPU-hours, GPUs.")
        == "1 in 10 8-CPU slot jobs holds 2 CPU slot-hours, CPU slots."
    )
    assert said("big-GPU-job waits behind GPU-test and myGPU") == "big-GPU-job waits behind GPU-test and myGPU"
    assert spaced(device_word(["gpu", "gpu"]).counted(1)) == "1 GPU"
    assert spaced(device_word(["gpu", "cpu_slot"]).counted(3)) == "3 devices"


def test_sizes_are_in_binary_units() -> None:
    """Bytes carry their unit."""
    assert spaced(data_size(14_388_000_000)) == "13.4 GiB"
    assert spaced(data_size(12)) == "12 B"
    assert data_size(None) == "not measured"


def test_times_name_the_day_once_it_is_not_today() -> None:
    """24 h clock; the weekday within a week, then the date."""
    zone = ZoneInfo("Europe/Berlin")

    assert clock(NOW, NOW, zone) == "15:32"
    assert clock(NOW - timedelta(days=1), NOW, zone) == "Fri 15:32"
    assert clock(NOW - timedelta(days=30), NOW, zone) == "23 Oct 16:32"
    assert clock(NOW - timedelta(days=400), NOW, zone) == "18 Oct 2024"


def test_ages_are_said_from_now() -> None:
    """Past and future read differently."""
    assert spaced(relative(NOW - timedelta(seconds=3), NOW)) == "3 s ago"
    assert spaced(relative(NOW + timedelta(minutes=84), NOW)) == "in 1 h 24 min"
    assert relative(NOW, NOW) == "now"


def test_lists_of_words_end_with_and() -> None:
    """a, b and c."""
    assert joined(["a"]) == "a"
    assert joined(["a", "b", "c"]) == "a, b and c"
    assert joined([]) == ""
