"""Form for a new webhook."""

from django import forms

from scheduler.models import Queue
from scheduler.selectors.accounts.notices import NOTICES, OF_A_QUEUE

WHOLE_CLUSTER = ""


class WebhookForm(forms.Form):
    """Name, address, queue and notices of a webhook."""

    name = forms.CharField(max_length=80, help_text="What it is for, such as team chat.")
    url = forms.CharField(max_length=500, label="Address", help_text="Messages are posted there. It begins with https.")
    queue = forms.ChoiceField(required=False, label="Events of", help_text="With those of the queues below.")
    notices = forms.MultipleChoiceField(
        choices=[(name, text) for name, text in NOTICES.items()],
        initial=["job.failed"],
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(self, *args: object, queues: list[Queue], whole_cluster: bool, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # Django's own signature
        names = [(queue.name, queue.name) for queue in queues]
        field = self.fields["queue"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(WHOLE_CLUSTER, "the whole cluster"), *names] if whole_cluster else names
        told = self.fields["notices"]
        assert isinstance(told, forms.MultipleChoiceField)
        told.choices = [(name, text) for name, text in NOTICES.items() if whole_cluster or name in OF_A_QUEUE]
