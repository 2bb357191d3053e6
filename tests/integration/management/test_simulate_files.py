"""The files that ``manage.py simulate`` writes: records, series, placements and the report."""

import csv
import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.parquet
import pytest
from django.core.management import CommandError

from tests.support.live.simulations import BUSY, SMALL, TRACE, figures, simulate, stable


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    """CSV and Parquet hold the same rows, and they agree with the figures."""
    found = figures(
        TRACE, "--policy", "las", *SMALL, "--records", str(tmp_path / "r.csv"), "--series", str(tmp_path / "s.csv"),
        "--placements", str(tmp_path / "p.parquet"),
    )  # fmt: skip
    simulate(TRACE, "--policy", "las", *SMALL, "--records", str(tmp_path / "r.parquet"))
    with (tmp_path / "r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = pyarrow.parquet.read_table(tmp_path / "r.parquet").to_pydict()

    assert len(rows) == 60
    assert list(rows[0]) == list(table)
    assert [float(row["jct_s"]) for row in rows] == table["jct_s"]
    assert sum(table["jct_s"]) / 60 == pytest.approx(found["avg_jct_s"])
    assert sum(table["preemptions"]) == found["preemptions"]
    stays = pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pydict()
    held = sum(n * (e - b) for n, b, e in zip(stays["num_gpus"], stays["begin_s"], stays["end_s"], strict=True))
    assert held == pytest.approx(sum(table["service_gpu_s"]))
    with (tmp_path / "s.csv").open(newline="") as file:
        series = list(csv.DictReader(file))
    assert all(float(row["allocated_gpus"]) <= 16 for row in series)
    assert "queue_default_gpus" in series[0]


def test_a_job_that_never_started_has_empty_cells(tmp_path: Path) -> None:
    """Not infinity, not zero."""
    with pytest.raises(CommandError):
        simulate(TRACE, "--policy", "fifo", *SMALL, "--until", "100", "--records", str(tmp_path / "r.csv"))
    with (tmp_path / "r.csv").open(newline="") as file:
        left = [row for row in csv.DictReader(file) if float(row["arrival_s"]) > 100]

    assert left
    assert {(row["first_start_s"], row["end_s"], row["jct_s"]) for row in left} == {("", "", "")}


def test_seconds_by_reason_add_up_to_the_wait(tmp_path: Path) -> None:
    """With --reasons records have a column for each reason that occurred; the figures are the same."""
    found = figures(*BUSY, "--policy", "srtf", "--reasons", "--records", str(tmp_path / "r.parquet"))
    table = pyarrow.parquet.read_table(tmp_path / "r.parquet").to_pydict()
    reasons = [name for name in table if name.startswith("waited_")]

    assert stable(found) == stable(figures(*BUSY, "--policy", "srtf"))
    assert "waited_behind_policy_order_s" in reasons
    assert [sum(seconds) for seconds in zip(*(table[name] for name in reasons), strict=True)] == pytest.approx(
        table["queueing_s"]
    )


def test_an_output_never_overwrites_the_trace(tmp_path: Path) -> None:
    """However the file is called."""
    trace = tmp_path / "mine.csv"
    trace.write_text("arrival_s,num_gpus,run_s\n0,1,60\n")

    with pytest.raises(CommandError, match="is the trace, which would be overwritten"):
        simulate(str(trace), "--policy", "fifo", "--records", str(tmp_path / "." / ".." / tmp_path.name / "mine.csv"))
    assert trace.read_text().startswith("arrival_s")


class Links(HTMLParser):
    """Collects what a browser would load, and the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in {"src", "href", "data", "action", "srcset"}]


def test_the_report_stands_alone_and_escapes_names(tmp_path: Path) -> None:
    """Nothing is loaded, hostile names of jobs and queues stay text, every chart is there."""
    hostile = "</script><img src=x onerror=alert(1)>"
    rows = ["name,arrival_s,num_gpus,run_s,queue"] + [f'"{hostile}{i}",{i * 60},1,600,"{hostile}"' for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    report = tmp_path / "r.html"
    simulate(str(tmp_path / "t.csv"), "--compare", "fifo,srtf", "--workers", "1", "--html", str(report))
    text = report.read_text()
    links = Links()
    links.feed(text)

    assert [link for link in links.loads if not link.startswith("#")] == []
    assert "img" not in links.tags
    assert links.tags.count("script") == 1 + text.count('type="application/json"')
    assert "url(" not in re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert {"jct", "waits", "rho", "use", "arm-0-gantt", "arm-1-gantt"} <= set(re.findall(r'id="([\w-]+)" data-', text))
    assert len(text) < 2.5e6
