"""A Job of Kubernetes (``batch/v1``), as parsed YAML: its first container becomes the command."""

from collections.abc import Mapping

from scheduler.core.spec.foreign.translation import Fields, Translation, fields_of, plain_name
from scheduler.core.spec.units import format_duration

_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_POD_ELSEWHERE = {
    "volumes": "Mount data on the servers; a job sees the paths of its server.",
    "nodeSelector": "Servers are chosen by the scheduler.",
    "affinity": "Servers are chosen by the scheduler.",
    "tolerations": "Servers are chosen by the scheduler.",
    "initContainers": "Do it at the beginning of the command.",
    "serviceAccountName": "A job has no account of a cluster.",
    "priorityClassName": "Set schedule.priority, 0 to 100.",
    "schedulerName": "Clusterweb is the scheduler.",
    "imagePullSecrets": "Jobs run on the server, not in an image.",
}
_JOB_ELSEWHERE = {
    "parallelism": "Submit one job for each pod, or one gang with all GPUs.",
    "completions": "Submit one job for each pod.",
    "ttlSecondsAfterFinished": "Ended jobs are kept with their logs.",
    "podFailurePolicy": "Failures are sorted by their cause.",
}
_GPU = "nvidia.com/gpu"


def from_kubernetes(data: object, *, queue: str) -> Translation:
    """Return the spec that does what the Job asks for.

    Raises:
        ValueError: With a sentence, when the data is no Job or has no container.
    """
    if not isinstance(data, Mapping) or data.get("kind") != "Job":
        kind = data.get("kind") if isinstance(data, Mapping) else None
        raise ValueError(f"This is {f'a {kind}' if kind else 'no object of Kubernetes'}; only kind: Job can be read.")
    spec = fields_of(data, "spec")
    pod = fields_of(fields_of(spec, "template"), "spec")
    containers = pod.get("containers")
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], Mapping):
        raise ValueError("The Job has no container under spec.template.spec.containers.")
    made = Translation()
    metadata = fields_of(data, "metadata")
    labels = {str(name): str(value) for name, value in fields_of(metadata, "labels").items()}
    made.spec["name"] = plain_name(str(metadata.get("name") or metadata.get("generateName") or ""), otherwise="k8s-job")
    made.spec["queue"] = queue or labels.pop(_QUEUE_LABEL, "")
    if labels:
        made.spec["labels"] = labels
    _container(made, containers[0])
    for other in containers[1:]:
        name = other.get("name") if isinstance(other, Mapping) else other
        made.skip(f"containers: {name}", "A job is one command; start the others from it.")
    _limits(made, spec)
    for fields, elsewhere in ((pod, _POD_ELSEWHERE), (spec, _JOB_ELSEWHERE)):
        for name, why in elsewhere.items():
            if name in fields and not (name in {"parallelism", "completions"} and fields[name] == 1):
                made.skip(name, why)
    return made


def _container(made: Translation, container: Fields) -> None:
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    made.spec["command"] = [str(word) for word in words]
    if not container.get("command"):
        made.skip("command", "The image's own command is not known here; write it out.")
    if container.get("image"):
        made.skip(f"image: {container['image']}", "Jobs run on the server; install what they need there.")
    for entry in container.get("env") or []:
        if not isinstance(entry, Mapping):
            continue
        if "value" in entry:
            made.put("env", str(entry.get("name")), str(entry["value"]))
        else:
            made.skip(f"env: {entry.get('name')}", "Values of secrets and config maps cannot be read; set them here.")
    for name, why in (("volumeMounts", _POD_ELSEWHERE["volumes"]), ("workingDir", "Use absolute paths for data.")):
        if name in container:
            made.skip(name, why)
    resources = fields_of(container, "resources")
    asked = {**fields_of(resources, "limits"), **fields_of(resources, "requests")}
    limits = fields_of(resources, "limits")
    if _GPU in limits:
        asked[_GPU] = limits[_GPU]
    _resources(made, asked)


def _resources(made: Translation, asked: Fields) -> None:
    gpus = 0
    for name, value in asked.items():
        text = str(value)
        try:
            if name == _GPU:
                gpus = int(text)
            elif name == "cpu":
                made.put("resources", "cpus", float(text[:-1]) / 1000 if text.endswith("m") else float(text))
            elif name == "memory":
                made.put("resources", "memory", _size(text))
            else:
                made.skip(f"resources: {name}", f"There is no resource {name} here.")
        except ValueError:
            made.skip(f"resources: {name}: {text}", f"{text!r} is not understood.")
    made.put_gpus(gpus)


def _size(text: str) -> str:
    """Return ``4Gi`` as ``4GiB``, ``500M`` as ``500MB``, and a bare number as bytes."""
    number = text.rstrip("KMGTikm")
    unit = text[len(number) :]
    float(number)
    if not unit:
        return f"{int(float(number))}B"
    return f"{number}{unit.replace('K', 'k') if unit == 'K' else unit}B"


def _limits(made: Translation, spec: Fields) -> None:
    if isinstance(spec.get("backoffLimit"), int):
        made.put("retry", "max", spec["backoffLimit"])
    seconds = spec.get("activeDeadlineSeconds")
    if isinstance(seconds, int) and seconds > 0:
        made.put("schedule", "max_duration", format_duration(float(seconds)))
