"""Documents are made of rows: every kind of annotation becomes the field that says the same."""

from typing import Annotated, Literal, TypedDict

from rest_framework import serializers

from scheduler.api.http.documents import Facts, document_of, page_of
from scheduler.selectors.rows import Json, Moment, one_of


class Inner(TypedDict):
    """A part."""

    number: int


class Outer(Inner):
    """The whole."""

    word: Annotated[str, one_of(["a", "b"], blank=True), "One of two."]
    kind: Literal["c"]
    at: Annotated[Moment | None, "When."]
    frac: float | None
    ok: bool
    facts: Json
    part: Inner | None
    parts: Annotated[list[Inner], "All of them."]
    names: list[str]


def test_annotations_become_fields() -> None:
    """Types, null, closed lists, nesting and sentences are those of the row; inherited keys come first."""
    fields = document_of(Outer)().fields
    word = fields["word"]

    assert {name: type(field) for name, field in fields.items()} == {
        "number": serializers.IntegerField,
        "word": serializers.ChoiceField,
        "kind": serializers.ChoiceField,
        "at": serializers.DateTimeField,
        "frac": serializers.FloatField,
        "ok": serializers.BooleanField,
        "facts": Facts,
        "part": document_of(Inner),
        "parts": serializers.ListSerializer,
        "names": serializers.ListField,
    }
    assert [name for name, field in fields.items() if field.allow_null] == ["at", "frac", "part"]
    assert [field.help_text for field in fields.values() if field.help_text] == [
        "One of two.",
        "When.",
        "All of them.",
    ]
    assert isinstance(word, serializers.ChoiceField)
    assert (list(word.choices), word.allow_blank) == (["a", "b"], True)
    assert document_of(Outer).__doc__ == "The whole."


def test_documents_are_made_once_and_may_be_named() -> None:
    """The same row gives the same class, so that the document has one component of a name."""
    page = page_of(document_of(Inner, "InnerDocument"), "InnerPage", "A page.")

    assert document_of(Outer) is document_of(Outer)
    assert document_of(Inner, "InnerDocument").__name__ == "InnerDocument"
    assert (page.__name__, list(page().fields)) == ("InnerPage", ["next", "previous", "total", "results"])
