"""What ``clusterweb whatif`` says of an answer: whether it is to be trusted comes first, as on its page."""

from pathlib import Path

import pytest
from django.utils.html import strip_tags

from clusterweb.cli.main import main
from scheduler.models import Scenario
from tests.integration.api.conftest import World
from tests.integration.api.jobs.conftest import sign_in
from tests.support.pages.world import runs_answer

NEAR = {"key": "makespan_s", "kind": "time", "happened": 90_000.0, "replayed": 90_060.0, "error_frac": 0.0007}
FAR = {"key": "avg_jct_s", "kind": "time", "happened": 40_540.0, "replayed": 49_140.0, "error_frac": 0.2121}
FULL = {"key": "avg_allocated_gpus", "kind": "gpus", "happened": 5.0, "replayed": 8.0, "error_frac": 0.6}


@pytest.mark.parametrize(
    ("rows", "doubt"),
    [
        ([NEAR], ""),
        ([FAR, NEAR], "mean JCT was really 11 h 16 min, replayed 13 h 39 min."),
        ([FAR, FULL], "mean JCT was really 11 h 16 min, replayed 13 h 39 min; allocated was really 5.0"),
    ],
)
def test_an_answer_that_is_not_reliable_says_so_first(
    shop: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    rows: list[dict[str, object]],
    doubt: str,
) -> None:
    """With the figures that are off, in words; all figures of the replay stand below, durations as durations."""
    sign_in(shop, "admin", monkeypatch)
    asked = Scenario.objects.filter(pk=shop.asked.pk)
    asked.update(about={"text": "On 2 servers", "fidelity": rows})
    assert main(["whatif", "compare", shop.asked.pk]) == 0
    assert "Not reliable" not in capsys.readouterr().out, "nothing follows before there is an answer"
    runs_answer(shop.asked, shop.asked.runs.all(), tmp_path)
    asked.update(about={**asked.get().about, "text": "On 2 servers", "fidelity": rows})
    assert main(["whatif", "compare", shop.asked.pk]) == 0
    said = capsys.readouterr().out.splitlines()
    page = strip_tags(shop.client("admin").get(f"/whatif/{shop.asked.pk}").content.decode()).replace("\u00a0", " ")

    begins = f"Not reliable: replayed under the settings that held then, {doubt}"
    assert said[0].startswith(begins if doubt else f"{shop.asked.name}: On 2 servers")
    assert ("What follows may be as far off." in said[0]) == bool(doubt)
    assert doubt.rstrip(".") in page
    if NEAR in rows:
        assert said[-1] == "Makespan: happened 1 d 1 h, replayed 1 d 1 h"
