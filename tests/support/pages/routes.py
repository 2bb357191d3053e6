"""Every page, found by walking the URL configuration and never by a list of our own."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver, reverse


def _walk(found: list[URLPattern | URLResolver]) -> Iterator[URLPattern]:
    for item in found:
        if isinstance(item, URLResolver):
            yield from _walk(item.url_patterns)
        else:
            yield item


def page_patterns() -> dict[str, URLPattern]:
    """Return the pages by the name of their route."""
    pages = [one for one in _walk(get_resolver().url_patterns) if one.callback.__module__.startswith("frontend.")]
    found = {pattern.name or "": pattern for pattern in pages}

    assert "" not in found, "every page needs a name in its urls.py"
    assert len(found) == len(pages), "two pages have one name"
    return found


def page_path(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the path of a page.

    Args:
        name: Of its route.
        arguments: A value for each name of an argument that stands in a path, for all pages together.
    """
    pattern = page_patterns()[name].pattern
    missing = sorted(set(pattern.converters) - set(arguments))

    assert not missing, f"the path of the page {name} has {missing}: say in the arguments of this test what is meant"
    return reverse(name, kwargs={key: arguments[key] for key in pattern.converters})
