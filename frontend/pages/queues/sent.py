"""The outcome of a form that was sent to a queue page: a redirect, or the tab again with what is wrong."""

from dataclasses import dataclass, field
from typing import TypedDict

from django import forms
from django.http import HttpResponseBase

from frontend.pages.queues.consequences import Consequences
from frontend.pages.queues.forms import (
    FilesForm,
    IdleForm,
    IsolationForm,
    LimitsForm,
    MemberForm,
    QuotaForm,
    RefuseForm,
    RequestForm,
)


class SentContext(TypedDict, total=False):
    """What a sent form changes in the context of its tab.

    Keys:
        form: A new queue.
        quota_form, limits_form, idle_form, isolation_form, files_form, member_form: As sent, with what is wrong.
        request_form: A request for quota, as sent, with what is wrong.
        refuse_form: The refusal of a request, as sent, with what is wrong.
        taken: Quotas of sibling queues as typed, by queue.
        consequences: What the quota would do.
        refused: Whether there is no preview of these values.
        conflict: Why it was not saved.
    """

    form: forms.Form | None
    quota_form: QuotaForm
    limits_form: LimitsForm
    idle_form: IdleForm
    isolation_form: IsolationForm
    files_form: FilesForm
    member_form: MemberForm
    request_form: RequestForm
    refuse_form: RefuseForm
    taken: dict[int, str]
    consequences: Consequences
    refused: bool
    conflict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The outcome.

    Attributes:
        to: Redirect; None to show the tab.
        status: HTTP status of the answer that shows the tab.
        context: What the tab shows of the form.
    """

    to: HttpResponseBase | None = None
    status: int = 200
    context: SentContext = field(default_factory=SentContext)
