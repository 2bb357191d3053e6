"""The members tab: who has a role, what each holds, and how a lead changes that."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseRedirect

from frontend.components.viewer import now_utc
from frontend.pages.queues.forms import MemberForm
from frontend.pages.queues.sent import Sent
from scheduler.core.model.errors import NotAllowed, NotFound
from scheduler.models import Queue
from scheduler.models.queue import Role
from scheduler.selectors.queues.tree import held_by_owner
from scheduler.selectors.visibility import Actor
from scheduler.services.queues.members import membership_remove, membership_set

Context = dict[str, Any]  # of a template


def members_context(user: Actor, queue: Queue, detail: Context, sent: Context) -> Context:
    """Return what the tab shows."""
    held, limit = held_by_owner(queue), queue.user_max_gpus
    own = {member["username"] for member in detail["members"]}
    above: dict[str, list[str]] = {}
    for member in detail["inherited_members"]:
        above.setdefault(member["username"], []).append(f"{member['role']} by {member['queue']}")
    everybody = [{**member, "above": above.get(member["username"], [])} for member in detail["members"]]
    everybody += [member for member in detail["inherited_members"] if member["username"] not in own]
    listed = {member["username"] for member in everybody}
    # Who has no role any more may still hold something.
    everybody += [{"username": name, "role": "", "queue": ""} for name in sorted(held.keys() - listed)]
    members = [{**member, "held_gpus": held.get(member["username"], 0)} for member in everybody]
    scale = max(1, limit or 0, *held.values()) if held else max(1, limit or 0)
    for member in members:
        member["percent"] = 100 * member["held_gpus"] / scale
    return {"members": members, "limit": limit, "roles": Role.choices, "member_form": MemberForm(), **sent}


def member_sent(request: HttpRequest, queue: Queue) -> Sent:
    """Give a role."""
    form = MemberForm(request.POST)
    if not form.is_valid():
        return Sent(status=422, context={"member_form": form})
    user, role = form.cleaned_data["username"], Role(form.cleaned_data["role"])
    try:
        membership_set(actor=request.user, queue=queue, user=user, role=role, at=now_utc())
    except NotAllowed as error:
        form.add_error("role", str(error))
        return Sent(status=403, context={"member_form": form})
    messages.success(request, f"{user.username} is {role.label} of {queue.name}.")
    return Sent(to=_back(queue))


def member_removed(request: HttpRequest, queue: Queue) -> Sent:
    """Take a role away."""
    form = MemberForm({"username": request.POST.get("username", ""), "role": Role.VIEWER})
    try:
        if not form.is_valid():
            raise NotFound("There is no such user.")
        user = form.cleaned_data["username"]
        membership_remove(actor=request.user, queue=queue, user=user, at=now_utc())
        messages.success(request, f"{user.username} has no role in {queue.name} any more.")
    except (NotAllowed, NotFound) as error:
        messages.error(request, str(error))
    return Sent(to=_back(queue))


def _back(queue: Queue) -> HttpResponseRedirect:
    return HttpResponseRedirect(f"/queues/{queue.name}?tab=members")
