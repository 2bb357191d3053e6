"""Shapes of rounds and their decisions in the OpenAPI document."""

from rest_framework import serializers

from scheduler.api.http.documents import Facts, NamedJob, Numbers, Shape, moment, real, text, whole, word
from scheduler.api.http.pagination import PageFields
from scheduler.api.jobs.documents import REASONS, RULES


class RoundRow(Shape):
    """One decision, without what it decided."""

    number = whole()
    epoch = whole()
    trigger = text("beat, submit, end, server, settings, ...")
    started_at = moment(null=False)
    duration_s = real()
    policy = text()
    policy_options = Facts()
    locality = text()
    mechanism = text()
    num_jobs = whole()
    num_running = whole()
    num_launched = whole()
    num_preempted = whole()
    num_waiting = whole()
    num_gpus = whole()
    num_gpus_granted = whole()
    snapshot_hash = text("Equal snapshots give equal plans.")
    plan_hash = text()
    error = text("Set when the plan was refused.")


class DecidedJob(NamedJob):
    """The job of a decision."""

    color_slot = whole()


class PlaceDocument(Shape):
    """What was given on one server."""

    server = text()
    gpus = whole("How many.")
    cpus = real()
    memory_bytes = whole()


class GrantDocument(Shape):
    """A job that holds GPUs after the round."""

    job = DecidedJob(allow_null=True)
    state = word(["kept", "launched", "reconfiguring", "skipped"])
    seats = PlaceDocument(many=True)


class PreemptionDocument(Shape):
    """A job that must stop."""

    job = DecidedJob(allow_null=True)
    rule = word(RULES)
    by_job = DecidedJob(allow_null=True)
    evidence = Facts()


class WaitingDocument(Shape):
    """A job that waits."""

    job = DecidedJob(allow_null=True)
    position = whole(null=True)
    reason = word(REASONS, "Empty for a job that you may not see.", blank=True)
    evidence = Facts()


class TrialDocument(Shape):
    """A change that introspection tried on running jobs, with the speeds before and after."""

    kind = text("pack, move or grow.")
    jobs = DecidedJob(many=True)
    servers = serializers.ListField(child=serializers.CharField())
    verdict = text("trying, kept, undone or gone.")
    rates_before = Numbers(help_text="Mini-batches a second, by job.")
    rates_after = Numbers(help_text="Empty until it was measured.")
    gain = real("Of a pair on shared GPUs: together, of one alone in turn.", null=True)


class OrderDocument(Shape):
    """One place in the order of the policy."""

    job = DecidedJob(allow_null=True)
    key = text("What the policy sorts by, smallest first; null for a job that you may not see.", null=True)


class RoundDocument(RoundRow):
    """One decision with what it decided."""

    same_as = whole("The earlier round with the same decisions, word for word.", null=True)
    grants = GrantDocument(many=True)
    preemptions = PreemptionDocument(many=True)
    waiting = WaitingDocument(many=True)
    waiting_by_reason = serializers.DictField(child=serializers.IntegerField())
    order = OrderDocument(many=True, help_text="The first ones.")
    trials = TrialDocument(many=True)
    is_shortened = serializers.BooleanField(help_text="Whether only the first decisions of a kind are shown.")


class RoundPage(PageFields):
    """A page of rounds."""

    results = RoundRow(many=True)
