"""The usage of a queue over a calendar month, with what took GPUs from it."""

import re
from datetime import UTC, datetime

import pytest

from scheduler.core.model.lifecycle import EndCause
from scheduler.models import Attempt
from tests.integration.api.conftest import World

pytestmark = pytest.mark.django_db


def test_the_tab_tells_it_for_a_calendar_month(world: World) -> None:
    """The month is in the URL and among the links; an odd one is the last day."""
    now, client = datetime.now(UTC), world.client("member")
    attempt = Attempt.objects.filter(job__queue=world.vision, ended_at__isnull=False).first()
    assert attempt is not None
    Attempt.objects.filter(pk=attempt.pk).update(
        end_cause=EndCause.PREEMPTED, preempt_rule="quota_reclaim", ended_at=now, lost_s=7200.0, preempted_by=world.job
    )

    page = client.get(f"/queues/vision?tab=usage&range={now:%Y-%m}").content.decode()

    assert f"in {now:%B %Y}" in page
    assert f"1\u00a0preemption cost vision {2 * attempt.num_gpus:.2f}" in page
    assert f"canary-job J-{world.job.number}" in page
    assert f'range={now:%Y-%m}" aria-current="true"' in page
    for odd in ("2026-13", "9999-01", "2026-00", "2099-01", "x"):
        assert "last 24 h" in client.get(f"/queues/vision?tab=usage&range={odd}").content.decode()


def test_each_number_of_usage_has_its_heading_on_a_phone(world: World) -> None:
    """Rows have two lines there, without the heads of columns: a cell is a title, has its unit or has its label."""
    page = world.client("member").get("/queues/vision?tab=usage").content.decode()
    table = page.partition("-hours by user</caption>")[2].partition("</table>")[0]
    cells = re.findall(r"<td[^>]*>", table)

    assert "two" in page.partition("-hours by user</caption>")[0].rpartition("<table")[2]
    assert len(cells) >= 4
    named = ("data-label=", "data-unit=", 'class="kind"')
    assert all(any(each in cell for each in named) for cell in cells), cells
