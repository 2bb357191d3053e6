"""Forms of the queue page: quota and members. The rules are the services'; these read text and keep what was typed."""

from typing import Any

from django import forms
from django.contrib.auth.models import User

from scheduler.core.errors import SpecInvalid
from scheduler.models.queue import Role


class QuotaForm(forms.Form):
    """What a queue may hold. ``version`` is the one that its reader saw."""

    quota_gpus = forms.IntegerField(min_value=0, label="Quota")
    max_gpus = forms.IntegerField(
        min_value=0, required=False, label="At most", help_text="Borrowing included. Empty: no limit."
    )
    weight = forms.FloatField(min_value=0.01, help_text="Larger gets more of what nobody has a quota for.")
    may_borrow = forms.BooleanField(required=False, label="May borrow what others do not use")
    reason = forms.CharField(
        min_length=3, max_length=200, help_text="Everyone in the queue can read it. Kept in the list of changes."
    )
    version = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Django's own signature
        super().__init__(*args, **kwargs)
        for name in ("quota_gpus", "max_gpus", "weight", "reason"):
            self.fields[name].widget.attrs["autocomplete"] = "off"

    def add_errors(self, error: SpecInvalid) -> None:
        """Put what the service refused at the fields it names."""
        for entry in error.errors:
            name = entry.pointer.strip("/").split("/")[0]
            self.add_error(name if name in self.fields else None, entry.detail)


class MemberForm(forms.Form):
    """Give somebody a role."""

    username = forms.CharField(max_length=150, label="User name")
    role = forms.ChoiceField(choices=Role.choices, initial=Role.MEMBER)

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Django's own signature
        super().__init__(*args, **kwargs)
        self.fields["username"].widget.attrs["autocomplete"] = "off"

    def clean_username(self) -> User:
        """Return the user of this name."""
        user = User.objects.filter(username=self.cleaned_data["username"].strip(), is_active=True).first()
        if user is None:
            raise forms.ValidationError("There is no such user.")
        return user
