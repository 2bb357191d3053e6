"""Shapes of profiles in the OpenAPI document."""

from rest_framework import serializers

from scheduler.api.http.documents import Facts, Shape, moment, real, text, whole, yes
from scheduler.api.http.pagination import PageFields


class ProfileRow(Shape):
    """How one kind of job reacts to what it is given."""

    fingerprint = text("Name of the profile, or a hash of what the job runs.")
    model = text("For people.")
    origin = text("measured, published or given.")
    is_measured = yes("Whether anything is known yet.")
    measured_at = moment()
    measured_cpus = whole("Most cores of a job at which it was measured.")
    cost_s = real("Seconds that jobs trained with other cores than granted, for all its measurements.")
    measure_again = yes("Whether an admin asked for it; the next attempt is measured.")
    is_being_measured = yes()
    best_cpus_per_gpu = real("Least cores at full speed.", null=True)
    best_memory_bytes_per_gpu = real("Least memory at full speed, with these cores.", null=True)
    skew = real("Largest tensor as a share of the model.", null=True)
    num_jobs = whole()


class RateDocument(Shape):
    """A measured point."""

    cpus_per_gpu = real()
    steps_per_s = real()


class LiveRateDocument(RateDocument):
    """A rate of jobs at work."""

    num_gpus = whole()
    num_servers = whole()
    attempts = whole("In the mean.")


class ProfileDocument(ProfileRow):
    """One profile with its curves."""

    cpus_per_gpu = serializers.ListField(child=real(), help_text="Rows of the matrix, cores.")
    memory_bytes_per_gpu = serializers.ListField(child=real(), help_text="Columns of the matrix, bytes.")
    relative_speed = serializers.ListField(
        child=serializers.ListField(child=real()), help_text="1 at the GPU-proportional share of the server."
    )
    scaling = serializers.ListField(child=serializers.ListField(child=real()), help_text="[GPUs, speed], 1 for one.")
    spread = serializers.ListField(
        child=serializers.ListField(child=real()), help_text="[GPUs on each server, speed], 1 on one server."
    )
    rates = RateDocument(many=True)
    live_rates = LiveRateDocument(many=True)
    evidence = Facts(help_text="What else was measured.")


class ProfilePage(PageFields):
    """All profiles that you may see."""

    results = ProfileRow(many=True)
