"""Shapes of servers and their GPUs in the OpenAPI document."""

from scheduler.api.http.documents import Shape, moment, real, text, whole, word, yes
from scheduler.api.http.pagination import PageFields
from scheduler.models.server import ServerState

STATES = list(ServerState.values)
KINDS = ["gpu", "cpu_slot"]


class HolderDocument(Shape):
    """Whose job holds a GPU."""

    id = text()
    number = whole()
    name = text()
    owner = text()


class GpuDocument(Shape):
    """One GPU, or one CPU slot of a machine without GPUs."""

    index = whole()
    model = text()
    memory_bytes = whole()
    healthy = yes()
    health_reason = text()
    allocated = yes()
    utilization_frac = real("0 to 1.", null=True)
    used_memory_bytes = whole(null=True)
    temperature_c = real(null=True)
    job = HolderDocument(allow_null=True, help_text="null: free, or not yours to see.")
    guest = HolderDocument(allow_null=True, help_text="The job that shares it; null: none, or not yours to see.")
    queue = text('"another queue" when you may not see it.', null=True)
    color_slot = whole(null=True)


class ServerRow(Shape):
    """One server."""

    id = text()
    number = whole()
    name = text()
    rack = text()
    state = word(STATES)
    state_reason = text()
    state_changed_at = moment(null=False)
    device_kind = word(KINDS, "A CPU slot is no GPU and is never called one.")
    simulated = yes("It has no machine: nothing on it is computed.")
    num_cpus = whole()
    memory_bytes = whole()
    isolation = text("How jobs are kept apart on it.")
    agent_version = text()
    last_report_at = moment()
    num_gpus = whole()
    allocated_gpus = whole()
    broken_gpus = whole()
    gpus = GpuDocument(many=True)


class ServerDocument(ServerRow):
    """One server with what is given on it."""

    allocated_cpus = real()
    allocated_memory_bytes = whole()
    generation = whole("Of its desired state.")
    acked_generation = whole("What its agent works on.")
    rejected_reports = whole()
    created_at = moment(null=False)


class ServerPage(PageFields):
    """All servers."""

    results = ServerRow(many=True)
