"""Forms for a new token and a new password."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.auth.forms import PasswordChangeForm

from scheduler.selectors.visibility import Actor, is_admin, may_ask_what_if, queues_led
from scheduler.services.accounts.tokens import SCOPES, longest, usual

LIFETIMES_DAYS = (7, 30, 90, 365)
SCOPE_WORDS = {
    "jobs:read": "Read jobs, logs and metrics",
    "jobs:write": "Submit, suspend, resume and cancel jobs",
    "queues:admin": "Change quotas and members",
    "whatif": "Ask what-if questions",
    "admin": "Change servers and settings",
}


def _lifetimes() -> list[tuple[str, str]]:
    """Return the choices up to the longest that an admin allows, which is always one of them."""
    most = longest().days
    days = sorted({most, usual().days, *(days for days in LIFETIMES_DAYS if days <= most)})
    return [(str(number), "1 day" if number == 1 else f"{number} days") for number in days]


class TokenForm(forms.Form):
    """Name, scopes and lifetime of a token; only scopes are offered that its user could use."""

    name = forms.CharField(max_length=80, help_text="Where it is used, such as laptop or nightly sweep.")
    scopes = forms.MultipleChoiceField(
        choices=[(scope, SCOPE_WORDS.get(scope, scope)) for scope in SCOPES],
        initial=["jobs:read", "jobs:write"],
        widget=forms.CheckboxSelectMultiple,
    )
    lifetime = forms.ChoiceField(choices=_lifetimes, initial=lambda: str(usual().days), label="Ends after")

    def __init__(self, *args: Any, user: Actor, **kwargs: Any) -> None:  # Django's own signature
        super().__init__(*args, **kwargs)
        led = {"queues:admin": queues_led(user).exists(), "whatif": may_ask_what_if(user), "admin": is_admin(user)}
        scopes = self.fields["scopes"]
        assert isinstance(scopes, forms.MultipleChoiceField)
        scopes.choices = [(scope, SCOPE_WORDS.get(scope, scope)) for scope in SCOPES if led.get(scope, True)]

    def lasts(self) -> timedelta:
        """Return the lifetime of the token."""
        return timedelta(days=int(self.cleaned_data["lifetime"]))


class PasswordForm(PasswordChangeForm):
    """The old password and the new one, twice."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Django's own signature
        super().__init__(*args, **kwargs)
        again = self.fields["new_password2"]
        again.label, again.help_text = "New password again", ""
