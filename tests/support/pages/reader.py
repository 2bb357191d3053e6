"""What a reader gets of a page: its text, its headings, its scripts and its inline handlers."""

from html.parser import HTMLParser

SAID_BY_ATTRIBUTES = ("title", "aria-label", "placeholder", "alt", "data-label")


class Page(HTMLParser):
    """A page, read once.

    Attributes:
        headings: How many it has of the first rank.
        inline: Scripts and handlers within its HTML.
        words: Texts and words of attributes, in their order.
        charts: Texts of the data that its scripts draw and say.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.headings = 0
        self.inline: list[str] = []
        self.words: list[str] = []
        self.charts: list[str] = []
        self._skipped = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.headings += tag == "h1"
        self._skipped += tag in {"script", "style"}
        self.inline += [name for name in given if name.startswith("on")]
        if tag == "script" and "src" not in given and given.get("type") != "application/json":
            self.inline.append("script")
        self.words += [given[name] or "" for name in SAID_BY_ATTRIBUTES if name in given]

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        (self.charts if self._skipped else self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())
