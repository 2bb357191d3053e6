"""Quotas and requests for them by the ``clusterweb`` command."""

import pytest

from clusterweb.cli.main import main
from scheduler.models import Queue, QuotaRequest
from tests.integration.api.conftest import World
from tests.integration.api.jobs.conftest import sign_in
from tests.support.rows.factories import server_make


def test_quota_change_needs_a_reason_and_the_right(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member may not change a quota; an admin may, with a reason."""
    assert main(["quota"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == shop.vision.name
    assert main(["quota", "vision", "--gpus", "3"]) == 2
    for more in (["--until", "2999-01-31"], ["--reason", "why"], ["--ask", "4", "--gpus", "3", "--reason", "why"]):
        assert main(["quota", "vision", *more]) == 2, "nothing that was given is passed over"
    assert main(["quota", "vision", "--gpus", "3", "--reason", "more work"]) == 1
    sign_in(shop, "admin", monkeypatch)
    assert main(["quota", "vision", "--gpus", "3", "--reason", "more work"]) == 0
    assert Queue.objects.get(pk=shop.vision.pk).quota_gpus == 3


def test_quota_is_asked_for_and_granted(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member asks with a reason, an admin lists and gives less than that."""
    QuotaRequest.objects.all().delete()
    server_make(gpus=4)
    asked = ["quota", "vision", "--ask", "6", "--until", "2999-01-31"]

    assert main(asked) == 2
    assert main([*asked, "--reason", "deadline"]) == 0
    number = str(QuotaRequest.objects.get().pk)
    assert main(["quota-requests", "grant", number]) == 1
    sign_in(shop, "admin", monkeypatch)
    assert main(["quota-requests", "refuse", number]) == 2
    capsys.readouterr()
    assert main(["quota-requests"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == [number, "vision", "open", "mia"]
    assert main(["quota-requests", "grant", number, "--gpus", "5"]) == 0
    assert capsys.readouterr().out == f"Request {number} is granted: the quota of vision is 5.\n"
    assert Queue.objects.get(pk=shop.vision.pk).quota_gpus == 5


def test_quota_is_taken_from_a_queue_beside_it(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grant beyond what is left says which queues have the rest and how to take it; so does a change without one."""
    Queue.objects.filter(pk=shop.org.pk).update(quota_gpus=8)
    number = str(shop.quota_request.pk)
    sign_in(shop, "admin", monkeypatch)

    assert main(["quota-requests", "grant", number]) == 1
    said = capsys.readouterr().err
    assert "/quota_gpus: quota may be at most 4: org has 8" in said
    assert "/moves: speech has 4. To take " in said
    assert "--leave of the command" in said
    assert main(["quota-requests", "grant", number, "--leave", "speech=2"]) == 0
    assert dict(Queue.objects.exclude(pk=shop.org.pk).values_list("name", "quota_gpus")) == {"vision": 6, "speech": 2}
    assert main(["quota", "vision", "--gpus", "7", "--leave", "speech=1", "--reason", "one more"]) == 0
    assert dict(Queue.objects.exclude(pk=shop.org.pk).values_list("name", "quota_gpus")) == {"vision": 7, "speech": 1}
    assert main(["quota", "vision", "--leave", "speech=0"]) == 2
    twice = ["--leave", "speech=0", "--leave", "speech=1"]
    assert main(["quota", "vision", "--gpus", "7", *twice, "--reason", "which"]) == 2
    assert main(["quota-requests", "refuse", number, "--leave", "speech=0", "--reason", "why"]) == 2


def test_request_for_quota_is_changed_and_withdrawn(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """What is not given stays; the new request has a number of its own."""
    QuotaRequest.objects.all().delete()
    server_make(gpus=4)
    assert main(["quota", "vision", "--ask", "6", "--until", "2999-01-31", "--reason", "deadline"]) == 0
    first = QuotaRequest.objects.get().pk
    capsys.readouterr()

    assert main(["quota-requests", "change", str(first)]) == 2
    assert main(["quota-requests", "withdraw", str(first), "--until", "none"]) == 2
    assert main(["quota-requests", "change", str(first), "--gpus", "9"]) == 1
    assert "quota may be at most 8: the whole cluster has 8 CPU slots. You asked for 9." in capsys.readouterr().err
    assert main(["quota-requests", "change", str(first), "--gpus", "7"]) == 0
    second = QuotaRequest.objects.get(state="open").pk
    assert capsys.readouterr().out == f"Request {second}, 7 for vision until 2999-01-31, replaces {first}.\n"
    assert main(["quota-requests", "change", str(second), "--until", "none", "--reason", "for good"]) == 0
    third = QuotaRequest.objects.get(state="open")
    assert (third.quota_gpus, third.until, third.reason) == (7, None, "for good")
    capsys.readouterr()
    assert main(["quota-requests", "--all"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines[str(second)].endswith(f"replaced by {third.pk}")
    assert not lines[str(third.pk)].endswith(f"replaced by {third.pk}")
    assert main(["quota-requests", "withdraw", str(third.pk)]) == 0
    assert not QuotaRequest.objects.filter(state="open").exists()


def test_demand_on_servers_is_changed_beside_the_quota(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both at once, each against the version that the other left."""
    sign_in(shop, "admin", monkeypatch)

    assert main(["quota", "vision", "--isolation", "user"]) != 0
    assert main(["quota", "vision", "--gpus", "3", "--isolation", "user", "--reason", "patients' data"]) == 0
    queue = Queue.objects.get(name="vision")
    assert (queue.quota_gpus, queue.isolation) == (3, "user")


def test_all_that_is_wrong_with_a_request_is_told_at_once(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Not one mistake after the other; nothing is sent."""
    before = QuotaRequest.objects.count()
    wrong = ["quota", "--ask", "6", "--until", "soon", "--leave", "speech=1", "--isolation", "full"]

    assert main(wrong) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in said] == ["Name", "--ask", "--leave", "--until", "A", "A"]
    assert "not 'soon'" in said[3]
    assert QuotaRequest.objects.count() == before


@pytest.mark.parametrize("word", ["ls", "list"])
def test_requests_and_secrets_and_templates_and_files_are_listed_by_either_word(
    shop: World, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    """``ls`` is the one in the help; ``list`` does the same."""
    for listed in (["quota-requests", word], ["secret", word], ["templates", word], ["files", word, "J-1"]):
        assert main(listed) != 2, capsys.readouterr().err
