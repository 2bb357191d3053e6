"""The finding of a heat map is true of what may be used."""

from frontend.pages.cluster.heat import HeatRow, lowest_title


def test_a_drained_server_is_not_the_one_that_is_used_least() -> None:
    """It is idle because it has to be."""
    busy, idle = HeatRow(name="gpu-01", fracs=[0.9]), HeatRow(name="gpu-02", fracs=[0.2, None])
    drained = HeatRow(name="gpu-03", fracs=[0.0], takes_jobs=False)

    assert lowest_title([busy, idle, drained], what="Servers") == "gpu-02 is used least, 20\u00a0%"
    assert lowest_title([busy, drained], what="Servers") == "Servers are 90\u00a0% used"
    assert lowest_title([drained], what="Servers") == "Nothing measured yet"
