"""Which of the cluster's GPUs a round may use, and why the others are left out."""

from django.db.models import Count, Q

from scheduler.models import Server
from scheduler.models.server import ServerState

MOST_NAMED = 3


def capacity_words(*, drained: bool = False) -> str:
    """Return what is counted, with what is left out: ``6 of 8 GPUs; server-2 is drained``.

    Args:
        drained: Whether drained servers are counted.
    """
    counted = {ServerState.UP, ServerState.DRAINING} if drained else {ServerState.UP}
    servers = Server.objects.annotate(total=Count("gpus"), working=Count("gpus", filter=Q(gpus__healthy=True)))
    rows = list(servers.order_by("number").values_list("name", "state", "total", "working"))
    there_are = sum(total for _, _, total, _ in rows)
    working = sum(working for _, state, _, working in rows if state in counted)
    broken = sum(total - working for _, state, total, working in rows if state in counted)
    reasons = [
        _left_out([name for name, state, _, _ in rows if state == left and state not in counted], word)
        for left, word in ((ServerState.DRAINING, "drained"), (ServerState.LOST, "lost"))
    ]
    reasons.append(f"{broken} {'is' if broken == 1 else 'are'} broken" if broken else "")
    gpus = "1 GPU" if there_are == 1 else f"{there_are:,} GPUs"
    share = gpus if working == there_are else f"{working:,} of {gpus}"
    return "; ".join(filter(None, (share, *reasons)))


def servers_drained() -> bool:
    """Return whether a server is drained, or about to be."""
    return Server.objects.filter(state=ServerState.DRAINING).exists()


def _left_out(names: list[str], word: str) -> str:
    if not names:
        return ""
    if len(names) > MOST_NAMED:
        return f"{len(names)} servers are {word}"
    return (
        f"{' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))} {'is' if len(names) == 1 else 'are'} {word}"
    )
