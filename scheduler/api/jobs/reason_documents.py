"""Shapes of why a job waits, and of what would become of it. Nothing here runs in a request."""

from rest_framework import serializers

from scheduler.api.http.bodies import Body
from scheduler.api.http.documents import STATES, Facts, NamedJob, Shape, moment, real, text, whole, word, yes
from scheduler.api.jobs.documents import REASONS, RULES, SpecDocument
from scheduler.api.jobs.history_documents import GapDocument


class CheckDocument(Shape):
    """One thing that was checked."""

    name = text()
    ok = yes()
    text = text("What was found.")


class AheadDocument(NamedJob):
    """A job that goes first."""

    position = whole(null=True)
    num_gpus = whole()
    color_slot = whole()
    reason = text()
    sentence = text()


class LookedDocument(Shape):
    """When a job that is asked about starts, from futures simulated for the question."""

    known = yes()
    p50_at = moment("Half of the futures start it by then.")
    simulated_p90_at = moment("Nine in ten; null where that many do not start it within 7 days.")
    p90_at = moment("The same, stretched by how far earlier ones were off; null where that is later than 7 days.")
    futures = whole("How many were simulated; 0 for a job that starts with the next round.")
    reason = text("Why nothing is known; empty when something is.")
    sentence = text("The same in words.")


class PlannedSeatDocument(Shape):
    """What the next round would give on one server."""

    server_id = text()
    server = text("Name of the server.")
    num_gpus = whole()
    cpus = real("Cores.")
    memory_bytes = whole()


class PreemptedDocument(NamedJob):
    """A running job that would have to make room."""

    color_slot = whole()
    num_gpus = whole()
    rule = word(RULES)


class PreviewDocument(Shape):
    """What the next round would do with a job that is not submitted yet."""

    feasible = yes("false: no round could ever start it; null: no server is up.", null=True)
    starts = word(["now", "after_others_leave", "later", "never", "unknown"])
    sentence = text("The answer in words.")
    largest_gpus = whole("Where it never starts: the most GPUs with which it could.", null=True)
    round = whole("The round before the question.")
    reason = word(REASONS, "Why it would wait; empty when it would not.", blank=True)
    evidence = Facts(help_text="The numbers of the reason.")
    position = whole("Its place in the order of the policy.", null=True)
    waiting_jobs = whole("Of so many that then wait.", null=True)
    placement = PlannedSeatDocument(many=True, help_text="Where it starts; empty when it waits.")
    preempts = PreemptedDocument(many=True, help_text="Who has to make room for it.")
    estimate = LookedDocument(allow_null=True, help_text="When; null where it never starts or no server is up.")


class DryRunDocument(Shape):
    """What would be stored, and what would become of it."""

    spec = SpecDocument()
    checks = CheckDocument(many=True)
    preview = PreviewDocument()


class EstimateDocument(Shape):
    """When a waiting job starts, from futures simulated after a round."""

    known = yes()
    p50_at = moment("Half of the futures start it by then.")
    simulated_p90_at = moment("Nine in ten; null where that many do not start it within 7 days.")
    p90_at = moment("The same, stretched by how far earlier ones were off; null where that is later than 7 days.")
    made_at = moment()
    round = whole(null=True)
    futures = whole("How many were simulated.")
    reason = text("Why nothing is known; empty when something is.")
    sentence = text("The same in words.")


class EstimateErrorDocument(Shape):
    """How far first estimates of the last 7 days were off, once jobs started."""

    starts = whole("Starts that had an estimate.")
    median_error_s = real("Median size of the error of `p50_at`.")
    covered_frac = real("Share that had started by `p90_at`, or had none.", null=True)
    covered_simulated_frac = real("Share that had started by `simulated_p90_at`.", null=True)
    untold_frac = real("Share without `p90_at`: later than 7 days.", null=True)
    ratios = whole("Ended waits by which the next `p90_at` are stretched, at most 500.")


class ChangeBody(Body):
    """What a waiting job asks for from now on; what is absent stays."""

    queue = serializers.CharField(required=False, max_length=120, help_text="A leaf queue.")
    gpus = serializers.IntegerField(required=False, min_value=1, max_value=1_000_000)
    min_gpus = serializers.IntegerField(required=False, min_value=1, max_value=1_000_000)
    max_servers = serializers.IntegerField(required=False, min_value=1, max_value=1_000_000)
    cpus = serializers.JSONField(required=False, help_text='Cores, or "auto".')
    memory = serializers.CharField(required=False, max_length=20, help_text='Such as "4GiB", or "auto".')


class UnblockDocument(Shape):
    """A change with which a waiting job starts, tried before it is told."""

    key = word(["queue", "max_servers", "resources", "min_gpus", "gpus"])
    title = text()
    change = ChangeBody(help_text="The body of `POST /jobs/{id}/unblock` that makes it so.")
    starts = word(["now", "after_others_leave", "sooner"])
    sentence = text()
    p50_at = moment("Of a change that starts it sooner.")
    sooner_s = real("By how much, seconds; null where as it is it does not start at all.", null=True)
    preempts = PreemptedDocument(many=True)


class ExplainDocument(Shape):
    """Why a job waits."""

    round = whole("The round that said so.", null=True)
    state = word(STATES)
    reason = word(REASONS, "The binding constraint; empty when it does not wait.", blank=True)
    sentence = text()
    evidence = Facts(help_text="The numbers of the reason.")
    since = moment()
    policy = text()
    position = whole("Place in the cluster; 1 is next.", null=True)
    waiting_jobs = whole(null=True)
    queue_position = whole(null=True)
    queue_waiting_jobs = whole(null=True)
    num_ahead = whole()
    ahead = AheadDocument(many=True, help_text="The nearest of them.")
    checks = CheckDocument(many=True)
    held_back = GapDocument(many=True, help_text="What it waited for so far.")
    estimate = EstimateDocument(allow_null=True, help_text="null when it does not wait.")
    estimate_error = EstimateErrorDocument(allow_null=True)
    unblock = UnblockDocument(many=True, help_text="Up to three; none when you may not change the job.")
