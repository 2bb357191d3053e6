"""The members tab: users with a role, the GPUs they hold, and how a lead changes roles."""

from typing import NotRequired, TypedDict

from django.contrib import messages
from django.http import HttpRequest, HttpResponseRedirect

from frontend.components.viewer import now_utc
from frontend.pages.queues.forms import MemberForm
from frontend.pages.queues.sent import Sent
from scheduler.core.model.errors import NotAllowed, NotFound
from scheduler.models import Queue
from scheduler.models.queue import Role
from scheduler.selectors.queues.rows import QueueDetailRow
from scheduler.selectors.queues.tree import held_by_owner
from scheduler.selectors.visibility import Actor, access_of
from scheduler.services.queues.members import membership_remove, membership_set


class MemberLine(TypedDict):
    """One user of the table.

    Keys:
        role: Empty for a user who has no role any more and still holds GPUs.
        queue: The queue above that gives the role; absent or empty for a role in the queue itself.
        above: Roles that the user also has from queues above, in words.
        is_fixed: Whether only others may change the role.
    """

    username: str
    role: str
    queue: NotRequired[str]
    above: NotRequired[list[str]]
    held_gpus: int
    percent: float
    is_fixed: bool


class MembersTab(TypedDict):
    """The context of the tab."""

    members: list[MemberLine]
    limit: int | None
    roles: list[tuple[str, str]]
    makes_leads: bool
    member_form: MemberForm


def members_context(user: Actor, queue: Queue, detail: QueueDetailRow) -> MembersTab:
    """Return what the tab shows; only admins make and change leads, so that others are not offered to."""
    roles = _roles(user)
    makes_leads = any(value == Role.LEAD for value, _ in roles)
    held, limit = held_by_owner(queue), queue.user_max_gpus
    scale = max(1, limit or 0, *held.values()) if held else max(1, limit or 0)

    def line(username: str, role: str) -> MemberLine:
        gpus = held.get(username, 0)
        return {
            "username": username,
            "role": role,
            "held_gpus": gpus,
            "percent": 100 * gpus / scale,
            "is_fixed": role == Role.LEAD and not makes_leads,
        }

    own = {member["username"] for member in detail["members"]}
    above: dict[str, list[str]] = {}
    for member in detail["inherited_members"]:
        above.setdefault(member["username"], []).append(f"{member['role']} by {member['queue']}")
    members: list[MemberLine] = [
        {**line(member["username"], member["role"]), "above": above.get(member["username"], [])}
        for member in detail["members"]
    ]
    members += [
        {**line(member["username"], member["role"]), "queue": member["queue"]}
        for member in detail["inherited_members"]
        if member["username"] not in own
    ]
    # A user without a role may still hold GPUs.
    members += [line(name, "") for name in sorted(held.keys() - {member["username"] for member in members})]
    return {
        "members": members,
        "limit": limit,
        "roles": roles,
        "makes_leads": makes_leads,
        "member_form": MemberForm(roles=roles),
    }


def _roles(user: Actor) -> list[tuple[str, str]]:
    """Return the roles that a lead or admin may give, with their labels."""
    is_admin = access_of(user).is_admin
    return [(value, label) for value, label in Role.choices if is_admin or value != Role.LEAD]


def member_sent(request: HttpRequest, queue: Queue) -> Sent:
    """Give a role."""
    form = MemberForm(request.POST, roles=_roles(request.user))
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
