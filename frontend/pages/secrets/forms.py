"""Form for a secret. Its value is never put back into a page, not even after an error."""

from django import forms

from scheduler.services.secrets.store import LEAST_CHARS, MOST_BYTES, NAME_CHARS


class SecretForm(forms.Form):
    """Name and value; what they may be is decided by the service."""

    name = forms.CharField(
        max_length=NAME_CHARS,
        help_text="As jobs name it, such as wandb.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "class": "mono"}),
    )
    value = forms.CharField(
        max_length=MOST_BYTES,
        strip=False,
        required=False,  # refused by the service, with the reason
        help_text=f"At least {LEAST_CHARS} characters. After you add it nobody can see it again, not even you.",
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "class": "mono"}),
    )
