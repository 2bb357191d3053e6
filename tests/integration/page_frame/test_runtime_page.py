"""The page of the runtime's figures: written by its command from what was measured, and by nobody else."""

import pytest

from benchmarks.runtime import gpu
from benchmarks.runtime.__main__ import PAGE, PARTS, RESULTS, page


def test_page_says_what_was_measured() -> None:
    """Every part has been measured, and the page is what the command makes of it."""
    assert [part for part in PARTS if not (RESULTS / f"runtime-{part}.json").exists()] == []
    assert PAGE.read_text(encoding="utf-8") == page()


def test_machine_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row stays open, and nothing is started."""
    monkeypatch.setattr("pynvml.nvmlInit", lambda: None)
    monkeypatch.setattr("pynvml.nvmlDeviceGetCount", lambda: 0)
    (row,) = gpu.figures()

    assert (row.value, row.is_met) == ("not measured", None)
    assert row.setting == "this machine has no GPU: NVML finds no device"
