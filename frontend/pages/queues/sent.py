"""What became of a form that was sent to a queue's page."""

from dataclasses import dataclass, field
from typing import Any

from django.http import HttpResponseBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The outcome.

    Attributes:
        to: Where the browser goes; None to show the tab.
        status: Of the answer that shows it.
        context: What the tab shows otherwise than without the form.
    """

    to: HttpResponseBase | None = None
    status: int = 200
    context: dict[str, Any] = field(default_factory=dict)  # of a template
