"""The forms of a page as a browser finds them in its HTML."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass(slots=True, kw_only=True)
class Form:
    """One form that is sent by POST.

    Attributes:
        action: Path that it is sent to.
        fields: What it sends when nothing is changed; the last of several values of a name.
        hidden: Names of fields that nobody types into.
        files: Names of fields that take a file.
        buttons: Names with the values of its submit buttons.
    """

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    buttons: list[tuple[str, str]] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.forms: list[Form] = []
        self._by_id: dict[str, Form] = {}
        self._open: Form | None = None
        self._select = self._textarea = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._open = Form(action=has.get("action") or self.path)
            self._by_id[has.get("id", "")] = self._open
            if has.get("method", "get").lower() == "post":
                self.forms.append(self._open)
            return
        form = self._by_id.get(has.get("form", ""), self._open) if "form" in has else self._open
        if form is not None:
            self._field(form, tag, has)

    def _field(self, form: Form, tag: str, has: dict[str, str]) -> None:
        name, kind = has.get("name", ""), has.get("type", "text")
        if tag == "option" and self._select and (self._select not in form.fields or "selected" in has):
            form.fields[self._select] = has.get("value", "")
        elif tag == "select":
            self._select = name
        elif tag == "textarea" and name:
            self._textarea = name
            form.fields[name] = ""
        elif tag == "button" and name:
            form.buttons.append((name, has.get("value", "")))
        elif tag == "input" and name:
            if kind == "file":
                form.files.add(name)
            elif kind not in ("checkbox", "radio") or "checked" in has or name not in form.fields:
                form.fields[name] = has.get("value", "on" if kind == "checkbox" else "")
            if kind == "hidden":
                form.hidden.add(name)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None
        elif tag == "select":
            self._select = ""
        elif tag == "textarea":
            self._textarea = ""

    def handle_data(self, data: str) -> None:
        if self._textarea and self._open is not None:
            self._open.fields[self._textarea] += data


def forms_of(html: str, *, path: str) -> list[Form]:
    """Return the forms of a page that are sent by POST.

    Args:
        path: Of the page; forms without an action go there.
    """
    reader = _Reader(path)
    reader.feed(html)
    return reader.forms
