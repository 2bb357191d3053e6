"""Folders that specs name by git: fetched once for each user and commit, then kept like any folder that was sent.

``git_fetch`` is called by the doors before they check a spec, outside every transaction: a host may take its time.
``git_resolved`` is what a check sees. An admin says which hosts there are to fetch from (``GIT_HOSTS``); a host that
leads to an address which is not public is refused unless its network is allowed (``GIT_NETWORKS``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import User

from agents.protocol.code import CodeRefused
from scheduler.core.model.errors import Conflict, FieldError, NoRoom, SpecInvalid
from scheduler.core.spec.code import PREFIX, read_code
from scheduler.core.spec.git import Git
from scheduler.core.spec.reading import FieldReader, is_storable
from scheduler.core.spec.spec import JobSpec
from scheduler.models import CodeGit, Queue
from scheduler.models.queue import Role
from scheduler.selectors.visibility import Actor, access_of
from scheduler.services.code.archives import Child, code_from_child, incoming_folder
from scheduler.services.code.folders import CodeAnswer
from scheduler.services.code.store import refuse_without_room, room_told
from scheduler.services.public_address import AddressRefused, check_address
from scheduler.services.secrets.crypt import SecretUnreadable, secret_decrypt
from scheduler.services.secrets.use import git_use_record, secret_for_git

GIT = Child(
    module="scheduler.services.code.git_child",
    cpu_s=60,
    memory_bytes=2**30,
    failed="Fetching the commit took too long or failed. Send the folder itself.",
)


# Fetched in one request, which waits for all of them.
MOST_FETCHED = 8


def git_fetch(*, actor: Actor, specs: Iterable[tuple[str, object]], at: datetime) -> None:
    """Fetch what specs name by git, unless the actor has it or may not submit there: the check of the spec says why.

    Args:
        specs: Each with the pointer that its errors begin with.

    Raises:
        SpecInvalid: A commit cannot be had, the first of them; or more than ``MOST_FETCHED`` are to be fetched.
    """
    done: set[tuple[str, Git]] = set()
    wanted: list[tuple[str, Queue, Git]] = []
    for pointer, data in specs:
        git, name = _named(data)
        if git is None or (name, git) in done or not isinstance(actor, User):
            continue
        done.add((name, git))
        queue = Queue.objects.filter(name=name).first()
        may_submit = queue is not None and access_of(actor).at_least(queue.pk, Role.MEMBER)
        if queue is None or not may_submit or _is_here(actor, git):
            continue
        if len(wanted) == MOST_FETCHED:
            detail = (
                f"A request may name at most {MOST_FETCHED} commits that are not here yet. Send this job by another."
            )
            raise SpecInvalid([FieldError(pointer=f"{pointer}/code/commit", code="too_many", detail=detail)])
        wanted.append((pointer, queue, git))
    for pointer, queue, git in wanted:
        assert isinstance(actor, User)  # nothing is wanted for others
        if _is_here(actor, git):  # of another queue, a moment ago
            continue
        try:
            _fetched(actor, queue, git, at=at)
        except _Refused as refused:
            error = FieldError(pointer=pointer + refused.pointer, code=refused.code, detail=refused.detail)
            raise SpecInvalid([error]) from None


def _is_here(user: User, git: Git) -> bool:
    return CodeGit.objects.filter(user=user, source=git.source).exists()


def git_resolved(owner: User, spec: JobSpec) -> tuple[JobSpec, list[FieldError]]:
    """Return the spec with the manifest of what git brought, and why it has none."""
    if spec.code is None or spec.code.git is None:
        return spec, []
    found = CodeGit.objects.filter(user=owner, source=spec.code.git.source).first()
    if found is None:
        detail = "The folder of this commit is not here any more. Submit the job anew: then it is fetched again."
        return spec, [FieldError(pointer="/code/git", code="unfetched", detail=detail)]
    if spec.code.manifest not in ("", found.folder_id):
        detail = f"This commit has the manifest {PREFIX}{found.folder_id}. Leave manifest out, or git and commit."
        return spec, [FieldError(pointer="/code/manifest", code="other", detail=detail)]
    return replace(spec, code=replace(spec.code, manifest=found.folder_id)), []


class _Refused(Exception):
    """A commit that cannot be had: which field is to blame, a short word, a sentence."""

    def __init__(self, pointer: str, code: str, detail: str) -> None:
        super().__init__(detail)
        self.pointer, self.code, self.detail = pointer, code, detail


def _named(data: object) -> tuple[Git | None, str]:
    """Return what a spec wants fetched, None for nothing or where it is wrong, and the queue that it names."""
    code, queue = (data.get("code"), data.get("queue")) if isinstance(data, Mapping) else (None, None)
    if not isinstance(code, Mapping) or not isinstance(queue, str) or not is_storable(queue):
        return None, ""
    found = read_code(FieldReader(), code)
    return (found.git if found is not None else None), queue


def _fetched(user: User, queue: Queue, git: Git, *, at: datetime) -> None:
    """Fetch a commit and note that the user has its folder. Raises _Refused."""
    task = {"url": git.url, "commit": git.commit, "subdir": git.subdir, "host": git.host, "resolve": _address(git)}
    key = _key(user, queue, git, at=at)
    try:
        with room_told():
            refuse_without_room(0)
        with incoming_folder(at) as folder:
            task["work"] = str(folder)
            found: CodeAnswer = code_from_child(user, GIT, task, folder=folder, at=at, secret=key.encode())
    except CodeRefused as refused:
        field = {"commit": "commit", "subdir": "subdir", "key": "key"}.get(refused.code, "git")
        raise _Refused(f"/code/{field}", refused.code, refused.detail) from None
    except (Conflict, NoRoom) as error:
        raise _Refused("/code/git", "busy" if isinstance(error, Conflict) else "no_room", str(error)) from None
    digest = found["manifest"].removeprefix(PREFIX)
    CodeGit.objects.update_or_create(user=user, source=git.source, defaults={"folder_id": digest})


def _address(git: Git) -> str:
    """Return host, port and the address that was checked, as git takes them. Raises _Refused."""
    if git.host not in settings.GIT_HOSTS:
        allowed = ", ".join(settings.GIT_HOSTS)
        if allowed:
            detail = f"Code may be fetched from {allowed}, not from {git.host}. An admin adds a host to GIT_HOSTS."
        else:
            detail = f"Code may be fetched from no host yet: an admin allows one by GIT_HOSTS={git.host}."
        raise _Refused("/code/git", "host", f"{detail} Until then send the folder: clusterweb submit .")
    try:
        target = check_address(git.url, allowed=settings.GIT_NETWORKS)
    except AddressRefused as refused:
        detail = f"{refused} An admin allows a network of your own by GIT_NETWORKS."
        raise _Refused("/code/git", "address", detail) from None
    ip = f"[{target.ip}]" if ":" in target.ip else target.ip
    return f"{target.host}:{target.port}:{ip}"


def _key(user: User, queue: Queue, git: Git, *, at: datetime) -> str:
    """Return the key, empty for none; its use is recorded before. Raises _Refused."""
    if git.key is None:
        return ""
    secret = secret_for_git(owner=user, queue=queue, use=git.key)
    if isinstance(secret, str):
        raise _Refused("/code/key", "no_secret", secret)
    try:
        key = secret_decrypt(secret)
    except SecretUnreadable as error:
        raise _Refused("/code/key", "no_secret", str(error)) from None
    git_use_record(owner=user, secret=secret, host=git.host, at=at)
    return key
