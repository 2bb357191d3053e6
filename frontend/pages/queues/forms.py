"""Forms of the queue page: quota, limits, idle jobs and members. Services check the values; forms only read them."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib.auth.models import User

from frontend.pages.queues.fields import CountField, DayField, FactorField, ReasonField
from scheduler.core.model.errors import SpecInvalid
from scheduler.core.operations.idle import IdleAction
from scheduler.core.spec.units import format_duration, parse_duration_s
from scheduler.models.queue import Role
from scheduler.services.queues.directories import KEEP_DAYS, Unconfirmed
from scheduler.services.queues.idle import AFTER_S
from scheduler.services.queues.isolation import DEMANDS
from scheduler.services.queues.quotas import WEIGHTS


class ReasonedForm(forms.Form):
    """A change of a queue with its reason. ``version`` is the version of the queue that the user saw."""

    reason = ReasonField(help_text="Everyone in the queue can read it. Kept in the list of changes.")
    version = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, needs_reason: bool = True, **kwargs: Any) -> None:  # Django's own signature
        super().__init__(*args, **kwargs)
        self.fields["reason"].required = needs_reason
        self.fields["reason"].widget.attrs["required"] = True
        for name in self.fields:
            if name not in ("version", "may_borrow"):
                self.fields[name].widget.attrs["autocomplete"] = "off"

    def add_errors(self, error: SpecInvalid) -> None:
        """Put what the service refused at the fields it names."""
        for entry in error.errors:
            name = entry.pointer.strip("/").split("/")[0]
            self.add_error(name if name in self.fields else None, entry.detail)


class QuotaForm(ReasonedForm):
    """What a queue may hold."""

    quota_gpus = CountField(min_value=0, label="Quota")
    max_gpus = CountField(
        min_value=0, empty="no limit", label="At most", help_text="Borrowing included. Empty: no limit."
    )
    weight = FactorField(
        min_value=WEIGHTS[0],
        max_value=WEIGHTS[1],
        label="Weight",
        help_text="Larger gets more of what belongs to no quota.",
    )
    may_borrow = forms.BooleanField(required=False, label="May borrow what others do not use")
    field_order = ("quota_gpus", "max_gpus", "weight", "may_borrow", "reason")
    lacking = ""  # the service's error, where queues beside it could give up GPUs; the page says how many

    def add_errors(self, error: SpecInvalid) -> None:
        """Put what the service refused at its fields; what others could give up is said by the page."""
        lacks_gpus = any(entry.pointer == "/moves" for entry in error.errors)
        said = ("/moves", "/quota_gpus") if lacks_gpus else ()
        self.lacking = " ".join(entry.detail for entry in error.errors if lacks_gpus and entry.pointer == "/quota_gpus")
        super().add_errors(SpecInvalid([entry for entry in error.errors if entry.pointer not in said]))


class LimitsForm(ReasonedForm):
    """What one user may have in a queue at most. The prefix keeps its fields apart from those of the quota."""

    prefix = "limits"
    user_max_gpus = CountField(
        min_value=1, empty="no limit", label="A user holds at most", help_text="At once. Empty: no limit."
    )
    user_max_queued = CountField(
        min_value=1, empty="no limit", label="A user queues at most", help_text="More are refused. Empty: no limit."
    )
    field_order = ("user_max_gpus", "user_max_queued", "reason")


class IdleForm(ReasonedForm):
    """What happens to jobs that hold GPUs without using them."""

    prefix = "idle"
    after = forms.CharField(
        max_length=20,
        required=False,
        label="Told after",
        help_text="Such as 30m or 2h of less than 5 % use. Empty: never checked.",
    )
    action = forms.ChoiceField(
        choices=[
            (IdleAction.TELL, "nothing more"),
            (IdleAction.SUSPEND, "it is suspended"),
            (IdleAction.CANCEL, "it is cancelled"),
        ],
        label="Then",
        help_text="As long again after it was told, at most 15 min. Never while it computes or makes steps.",
    )
    field_order = ("after", "action", "reason")

    def clean_after(self) -> int | None:
        """Return seconds."""
        text = self.cleaned_data["after"].strip()
        if not text:
            return None
        try:
            after_s = parse_duration_s(text)
        except ValueError:
            raise forms.ValidationError(f"Write a number with a unit, such as 30m or 2h, not {text}.") from None
        low, high = AFTER_S
        if not low <= after_s <= high:
            between = f"between {format_duration(low)} and {format_duration(high)}"
            raise forms.ValidationError(f"It must be {between}. You asked for {text}.")
        return int(after_s)

    def add_errors(self, error: SpecInvalid) -> None:
        """Put what the service refused at the fields it names."""
        for entry in error.errors:
            name = entry.pointer.strip("/").removeprefix("idle_").removesuffix("_s")
            self.add_error(name if name in self.fields else None, entry.detail)


class IsolationForm(ReasonedForm):
    """How far apart servers must keep jobs for those of the queue to start there."""

    prefix = "isolation"
    isolation = forms.ChoiceField(
        choices=DEMANDS,
        label="Jobs start",
        help_text="Holds for the queues below too. What runs goes on.",
    )
    field_order = ("isolation", "reason")

    def add_errors(self, error: SpecInvalid) -> None:
        """Put what the service refused at the fields it names."""
        for entry in error.errors:
            name = entry.pointer.strip("/")
            self.add_error(name if name in self.fields else None, entry.detail)


class FilesForm(ReasonedForm):
    """How long the files of ended jobs are kept."""

    prefix = "files"
    keep_directories_days = CountField(
        min_value=KEEP_DAYS[0],
        max_value=KEEP_DAYS[1],
        label="Kept after the end of a job",
        help_text="What is older is deleted within minutes, for good.",
    )
    directories_most = CountField(
        min_value=1, empty="no limit", label="All together at most", help_text="Beyond it the oldest go early."
    )
    user_directories_most = CountField(
        min_value=1, empty="no limit", label="Of each user at most", help_text="Empty: no limit."
    )
    confirmed_jobs = forms.IntegerField(required=False, widget=forms.HiddenInput)
    confirmed_rule = forms.CharField(required=False, widget=forms.HiddenInput)
    RULE = ("keep_directories_days", "directories_most", "user_directories_most")
    field_order = (*RULE, "reason")
    unconfirmed: Unconfirmed | None = None  # what the rule would remove; to be confirmed

    @property
    def rule(self) -> str:
        """The rule as sent: a confirmation of one is none of another."""
        return " ".join(str(self.cleaned_data[name]) for name in self.RULE)

    def confirmed(self) -> int | None:
        """Return of how many jobs files may be removed."""
        jobs: int | None = self.cleaned_data["confirmed_jobs"]
        return jobs if self.cleaned_data["confirmed_rule"] == self.rule else None

    def add_errors(self, error: SpecInvalid) -> None:
        """Put what the service refused at the fields it names; what has to be confirmed is no error of a field."""
        if isinstance(error, Unconfirmed):
            self.unconfirmed = error
            return
        for entry in error.errors:
            name = entry.pointer.strip("/").removesuffix("_bytes")
            self.add_error(name if name in self.fields else None, entry.detail)


class RequestForm(forms.Form):
    """What is asked for. The service checks the values."""

    prefix = "ask"
    quota_gpus = CountField(min_value=0, label="Quota")
    until = DayField(
        empty="for good",
        label="Needed until",
        help_text="Last day. Empty: for good.",
        widget=forms.DateInput(attrs={"type": "date"}),
    )
    reason = ReasonField(help_text="All who see the queue can read it.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Django's own signature
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs["autocomplete"] = "off"


class RefuseForm(forms.Form):
    """Why a request is refused. Its ids keep it apart from the form of the quota on the same tab."""

    reason = ReasonField()

    def __init__(self, data: Mapping[str, str] | None = None) -> None:
        super().__init__(data, auto_id="refuse-%s")
        self.fields["reason"].widget.attrs |= {"placeholder": "Why not", "autocomplete": "off"}


class MemberForm(forms.Form):
    """Give a user a role."""

    username = forms.CharField(max_length=150, label="User name")
    role = forms.ChoiceField(choices=Role.choices, initial=Role.MEMBER)

    def __init__(self, *args: Any, roles: Sequence[tuple[str, str]] = (), **kwargs: Any) -> None:  # Django's own
        super().__init__(*args, **kwargs)
        self.fields["username"].widget.attrs["autocomplete"] = "off"
        if roles:  # those that the reader may give; the service refuses the others, and says why
            self.fields["role"].widget.choices = roles

    def clean_username(self) -> User:
        """Return the user of this name."""
        user = User.objects.filter(username=self.cleaned_data["username"].strip(), is_active=True).first()
        if user is None:
            raise forms.ValidationError("There is no such user.")
        return user
