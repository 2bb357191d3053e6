"""What every page shows around its content."""

from django.http import HttpRequest


def shell(request: HttpRequest) -> dict[str, object]:
    """Return the template variables of the frame."""
    return {}
