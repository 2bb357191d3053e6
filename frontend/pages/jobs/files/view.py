"""What of a job's files a page shows, as its address says: open folders, files with a preview, long lists."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from django.http import QueryDict

MOST_OPEN = 30
MOST_SHOWN = 2
MATCH_LENGTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A place in the tree.

    Attributes:
        opened: Paths of open folders; None where the address names none, so that the page chooses.
        shown: Paths of files with a preview, the newest last; None likewise.
        whole: Path of the folder or text of which all is shown.
        match: What the names of listed files have in them; empty for all files.
        api: Begin of the addresses of downloads.
    """

    opened: tuple[str, ...] | None
    shown: tuple[str, ...] | None
    whole: str
    api: str
    match: str = ""

    @classmethod
    def of(cls, query: QueryDict, api: str) -> "View":
        """Return the view of an address."""
        return cls(
            opened=tuple(query.getlist("open")[:MOST_OPEN]) if "open" in query else None,
            shown=tuple(filter(None, query.getlist("show")))[:MOST_SHOWN] if "show" in query else None,
            whole=query.get("whole", ""),
            match=query.get("match", "").strip()[:MATCH_LENGTH],
            api=api,
        )

    def settled(self, opened: Iterable[str], shown: Iterable[str]) -> "View":
        """Return the view with the page's choice where the address makes none."""
        return replace(
            self,
            opened=tuple(opened) if self.opened is None else self.opened,
            shown=tuple(shown) if self.shown is None else self.shown,
        )

    @property
    def here(self) -> str:
        """Return the address of what is shown."""
        return self._href()

    def toggled(self, folder: str) -> str:
        """Return the address with a folder opened, or closed."""
        opened = self.opened or ()
        changed = [path for path in opened if path != folder] if folder in opened else [*opened, folder][-MOST_OPEN:]
        return self._href(opened=tuple(changed) or ("",))

    def showing(self, path: str) -> str:
        """Return the address with a preview of this file, beside that of the last one."""
        others = [shown for shown in self.shown or () if shown != path]
        return self._href(shown=(*others[-(MOST_SHOWN - 1) :], path))

    def instead(self, path: str, other: str) -> str:
        """Return the address with one preview in place of another."""
        return self._href(shown=tuple(other if shown == path else shown for shown in self.shown or ()))

    def all_of(self, path: str) -> str:
        """Return the address with all of a folder or a text."""
        return self._href(whole=path)

    def without_previews(self) -> str:
        """Return the address of the list alone."""
        return self._href(shown=("",))

    @property
    def kept(self) -> list[tuple[str, str]]:
        """Return all of the address but what names have in them."""
        return [pair for pair in self._pairs(self.opened, self.shown, self.whole) if pair[0] != "match"]

    def download(self, path: str) -> str:
        """Return where a file is downloaded."""
        return f"{self.api}/files/{quote(path)}"

    def picture(self, path: str) -> str:
        """Return where a picture is."""
        return f"{self.download(path)}?picture=true"

    def archive(self, path: str = "") -> str:
        """Return where a folder is downloaded as a zip."""
        return f"{self.api}/archive{'?' + urlencode({'path': path}) if path else ''}"

    def _href(
        self, *, opened: tuple[str, ...] | None = None, shown: tuple[str, ...] | None = None, whole: str = ""
    ) -> str:
        pairs = self._pairs(self.opened if opened is None else opened, self.shown if shown is None else shown, whole)
        return f"?{urlencode(pairs)}"

    def _pairs(
        self, opened: tuple[str, ...] | None, shown: tuple[str, ...] | None, whole: str
    ) -> list[tuple[str, str]]:
        pairs = [("open", path) for path in opened or ("",)] + [("show", path) for path in shown or ("",)]
        more = (("whole", whole or self.whole), ("match", self.match))
        return [*pairs, *((name, value) for name, value in more if value)]
