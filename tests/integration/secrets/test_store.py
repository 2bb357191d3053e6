"""Secrets at rest: who keeps which, what is refused, the keys, and that only ciphertext is stored."""

import base64
import sqlite3
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from clusterweb.config.env_error import EnvError
from clusterweb.config.secrets_keys import FILE, key_made, keys_read, keys_written, load_secrets_keys
from scheduler.core.model.errors import NotAllowed, NotFound, SpecInvalid
from scheduler.models import Event, Secret
from scheduler.models.queue import Role
from scheduler.services.secrets.crypt import SecretUnreadable, keys, secret_decrypt
from scheduler.services.secrets.store import MOST_BYTES, secret_delete, secret_set
from tests.support.rows.factories import AT, member_make, queue_make, user_make

pytestmark = pytest.mark.django_db

VALUE = "canary-0123456789"


@pytest.fixture(autouse=True)
def keys_dir(settings: Any, tmp_path: Path) -> Path:
    """Keys of this test alone."""
    settings.VAR_DIR, settings.SECRETS_KEYS = tmp_path, None
    load_secrets_keys({}, tmp_path)
    return tmp_path


def test_only_ciphertext_is_stored_and_only_the_key_opens_it() -> None:
    """The row, and its event, hold nothing of the value."""
    user = user_make()
    secret, is_new = secret_set(actor=user, queue=None, name="wandb", value=VALUE, at=AT)

    assert is_new
    assert secret_decrypt(Secret.objects.get()) == VALUE
    rows = f"{list(Secret.objects.values())} {list(Event.objects.values())}"
    assert VALUE not in rows
    assert base64.b64encode(VALUE.encode()).decode()[:16] not in rows
    assert secret.sealed.startswith("1:")


def test_a_later_value_replaces_the_earlier() -> None:
    """One row for a name; the event says who replaced it."""
    queue = queue_make("vision")
    lead, other = member_make(queue, Role.LEAD, name="lea"), member_make(queue, Role.LEAD, name="len")
    secret_set(actor=lead, queue=queue, name="wandb", value=VALUE, at=AT)
    secret, is_new = secret_set(actor=other, queue=queue, name="wandb", value="another-0123456", at=AT + timedelta(1))

    assert not is_new
    assert secret_decrypt(Secret.objects.get()) == "another-0123456"
    assert (secret.created_by, secret.changed_by) == ("lea", "len")
    told = Event.objects.filter(kind="secret").order_by("pk").values_list("actor", "reason", "queue__name")
    assert list(told) == [("lea", "set", "vision"), ("len", "replace", "vision")]


def test_leads_keep_the_secrets_of_a_queue_and_everybody_their_own() -> None:
    """A member uses them and changes none."""
    queue = queue_make("vision")
    member = member_make(queue, Role.MEMBER)
    with pytest.raises(NotAllowed):
        secret_set(actor=member, queue=queue, name="wandb", value=VALUE, at=AT)
    secret_set(actor=member_make(queue, Role.LEAD), queue=queue, name="wandb", value=VALUE, at=AT)
    with pytest.raises(NotAllowed):
        secret_delete(actor=member, queue=queue, name="wandb", at=AT)
    with pytest.raises(NotFound):
        secret_delete(actor=member, queue=None, name="wandb", at=AT)
    secret_set(actor=member, queue=None, name="wandb", value=VALUE, at=AT)

    assert Secret.objects.count() == 2


@pytest.mark.parametrize(
    ("name", "value", "pointer"),
    [
        ("a/b", VALUE, "/name"),
        ("", VALUE, "/name"),
        ("x" * 64, VALUE, "/name"),
        ("ok", "short", "/value"),
        ("ok", "", "/value"),
        ("ok", f"{VALUE}\n", "/value"),
        ("ok", f" {VALUE}", "/value"),
        ("ok", f"nul\x00{VALUE}", "/value"),
        ("ok", "x" * (MOST_BYTES + 1), "/value"),
    ],
)
def test_what_cannot_be_kept_is_refused_without_being_repeated(name: str, value: str, pointer: str) -> None:
    """Each with its field; no message holds the value."""
    with pytest.raises(SpecInvalid) as invalid:
        secret_set(actor=user_make(), queue=None, name=name, value=value, at=AT)

    assert [error.pointer for error in invalid.value.errors] == [pointer]
    assert VALUE not in str(invalid.value.errors)


def test_row_that_is_moved_to_another_owner_does_not_open() -> None:
    """Whoever can write the database cannot hand a value to another user, queue or name."""
    user, other = user_make(), user_make()
    secret_set(actor=user, queue=None, name="wandb", value=VALUE, at=AT)
    for changes in ({"user": other}, {"user": None, "queue": queue_make("vision")}, {"name": "other"}):
        with transaction.atomic():
            Secret.objects.update(**changes)
            with pytest.raises(SecretUnreadable):
                secret_decrypt(Secret.objects.get())
            transaction.set_rollback(True)


def test_the_database_itself_wants_one_owner() -> None:
    """A secret of nobody, or of two, cannot be stored."""
    for owners in ({}, {"user": user_make(), "queue": queue_make("vision")}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Secret.objects.create(name="x", sealed="1:x", created_at=AT, changed_at=AT, **owners)


def test_rotation_changes_every_ciphertext_and_no_value(keys_dir: Path) -> None:
    """The key before stays for a writer that read it a moment ago; the one before that is gone."""
    user = user_make()
    for name in ("a", "b"):
        secret_set(actor=user, queue=None, name=name, value=f"{VALUE}-{name}", at=AT)
    before = dict(Secret.objects.values_list("name", "sealed"))
    out = StringIO()
    call_command("rotate_secrets", stdout=out)

    assert "2 secrets are encrypted with key 2" in out.getvalue()
    assert [secret_decrypt(secret) for secret in Secret.objects.all()] == [f"{VALUE}-a", f"{VALUE}-b"]
    assert not set(before.values()) & set(Secret.objects.values_list("sealed", flat=True))
    assert list(keys()) == [2, 1]
    call_command("rotate_secrets", stdout=out)
    assert list(keys()) == [3, 2]
    assert (keys_dir / FILE).stat().st_mode & 0o777 == 0o600


def test_rotation_with_keys_of_the_environment_wants_a_new_one_first(settings: Any) -> None:
    """The containers' way: an admin puts a key in front, starts anew, rotates, and takes the old one away."""
    old, new = key_made(), key_made()
    settings.SECRETS_KEYS = {1: old}
    secret_set(actor=user_make(), queue=None, name="a", value=VALUE, at=AT)
    with pytest.raises(CommandError, match="Put a new one first"):
        call_command("rotate_secrets")
    settings.SECRETS_KEYS = {2: new, 1: old}
    call_command("rotate_secrets", stdout=StringIO())
    settings.SECRETS_KEYS = {2: new}

    assert secret_decrypt(Secret.objects.get()) == VALUE


def test_secret_without_its_key_says_which_is_missing(settings: Any) -> None:
    """A backup that was restored without the keys of its time."""
    secret_set(actor=user_make(), queue=None, name="a", value=VALUE, at=AT)
    settings.SECRETS_KEYS = {7: key_made()}

    with pytest.raises(SecretUnreadable, match="needs key 1"):
        secret_decrypt(Secret.objects.get())


def test_keys_are_read_as_they_are_written_and_bad_ones_refused(tmp_path: Path) -> None:
    """In a file or in the environment."""
    made = {2: key_made(), 1: key_made()}

    assert keys_read(keys_written(made)) == made
    assert list(keys_read(keys_written(made))) == [2, 1]
    assert load_secrets_keys({"SECRETS_KEYS": keys_written(made).strip().replace("\n", ",")}, tmp_path) == made
    for bad in ("x", "1:short", "1", f"{keys_written({1: key_made()})}{keys_written({1: key_made()})}"):
        with pytest.raises(EnvError, match="SECRETS_KEYS"):
            load_secrets_keys({"SECRETS_KEYS": bad}, tmp_path)


def test_key_file_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    """A second process finds the first one's key."""
    load_secrets_keys({}, tmp_path)
    first = (tmp_path / FILE).read_text()
    load_secrets_keys({}, tmp_path)

    assert (tmp_path / FILE).read_text() == first
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.django_db(transaction=True)
def test_backup_holds_no_value_and_no_key(tmp_path: Path) -> None:
    """The file that leaves the machine is of no use without the keys, which are kept apart."""
    secret_set(actor=user_make(), queue=None, name="wandb", value=VALUE, at=AT)
    path = tmp_path / "a.backup"
    call_command("backup", str(path), stdout=StringIO())
    content = path.read_bytes()

    assert VALUE.encode() not in content
    assert all(key not in content and base64.b64encode(key) not in content for key in keys().values())
    with sqlite3.connect(path) as copy:
        assert copy.execute("select name, sealed from scheduler_secret").fetchone()[0] == "wandb"
