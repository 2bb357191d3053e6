"""Documents and the READMEs of folders name files, folders and modules that exist."""

import re
from pathlib import Path

import pytest

from clusterweb.config.env import BASE_DIR
from frontend.pages.jobs.job.tabs import TABS

ENDINGS = r"(?:py|md|html|js|css|json|toml|yml|csv|gz|trace)"
DOCUMENTS = sorted(
    str(path.relative_to(BASE_DIR))
    for path in (*BASE_DIR.glob("*.md"), *(BASE_DIR / "docs").rglob("*.md"))
    if path.name != "CHANGELOG.md"
)
CODE = ("agents", "benchmarks", "clusterweb", "frontend", "scheduler", "tests")
READMES = sorted(str(path.relative_to(BASE_DIR)) for top in CODE for path in (BASE_DIR / top).rglob("README.md"))
# Documents may leave out the first folder, as in ``core/round/config.py``.
ROOTS = (Path(), Path("scheduler"), Path("docs"))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_in_a_document_exist(document: str) -> None:
    """``folder/file.ending`` in code style, and every relative link."""
    text = (BASE_DIR / document).read_text()
    quoted = re.findall(rf"`((?:[\w.-]+/)+[\w.-]+\.{ENDINGS})(?::[^`]*)?`", text)
    ours = [
        path
        for path in quoted
        if not path.startswith("var/") and any((BASE_DIR / root / path.partition("/")[0]).is_dir() for root in ROOTS)
    ]
    links = [link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text) if "://" not in link]
    folder = (BASE_DIR / document).parent

    assert [path for path in ours if not any((BASE_DIR / root / path).exists() for root in ROOTS)] == []
    assert [link for link in links if not (folder / link).exists()] == []


@pytest.mark.parametrize("document", [*DOCUMENTS, "CHANGELOG.md"])
def test_tabs_of_a_job_are_named_as_the_page_groups_them(document: str) -> None:
    """A tab that stands in a group of the page, as *Metrics* below *Resources*, is told with the group."""
    text = (BASE_DIR / document).read_text()
    grouped = [(tab.group, tab.label) for tab in TABS.values() if tab.group == "Resources"]

    assert grouped
    assert [label for group, label in grouped if re.search(rf"(?<!\*{group}\* > )\*{label}\*", text)] == []


def named_paths(text: str) -> list[str]:
    """Return what stands in code style and has a slash or the ending of a file; ``*`` stands for anything."""
    quoted = re.findall(r"`([\w.*-]+(?:/[\w.*-]+)*/?)(?:::\w+)?`", text)
    return [path for path in quoted if "/" in path or re.fullmatch(rf"[\w.*-]+\.{ENDINGS}", path)]


def is_there(path: str, folder: Path) -> bool:
    """Return whether a README can mean a file or folder: seen from its own, from one around it, or from ``scheduler``.

    The ending of a Python file may be left out. A name alone may also be of files in the folders below.
    """
    around = [folder, *folder.parents[: len(folder.relative_to(BASE_DIR).parts)], BASE_DIR / "scheduler"]
    found = (one for root in around for end in ("", ".py") for one in root.glob(path.rstrip("/") + end))
    return next(found, None) is not None or ("/" not in path and next(folder.rglob(path), None) is not None)


def is_module(name: str) -> bool:
    """Return whether a dotted name is a package, a module, or a name in one."""
    whole, parent = BASE_DIR / name.replace(".", "/"), BASE_DIR / name.rpartition(".")[0].replace(".", "/")
    if whole.is_dir() or whole.with_suffix(".py").is_file():
        return True
    file = parent / "__init__.py" if parent.is_dir() else parent.with_suffix(".py")
    return file.is_file() and re.search(rf"\b{name.rpartition('.')[2]}\b", file.read_text()) is not None


@pytest.mark.parametrize("folder", ["scheduler/live", "tests"])
def test_readme_names_every_folder(folder: str) -> None:
    """A README that lists the folders beside it leaves none out."""
    text = (BASE_DIR / folder / "README.md").read_text()
    folders = sorted(path.parent.name for path in (BASE_DIR / folder).glob("*/__init__.py"))

    assert folders
    assert [name for name in folders if not re.search(rf"`{name}/?`", text)] == []


@pytest.mark.parametrize("readme", READMES)
def test_paths_in_a_readme_exist(readme: str) -> None:
    """Files, folders and modules in code style, and every relative link."""
    text, folder = (BASE_DIR / readme).read_text(), (BASE_DIR / readme).parent
    modules = re.findall(rf"`((?:{'|'.join(CODE)})(?:\.\w+)+)`", text)
    links = [link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text) if "://" not in link]

    assert [path for path in named_paths(text) if not is_there(path, folder)] == []
    assert [name for name in modules if not is_module(name)] == []
    assert [link for link in links if not (folder / link).exists()] == []
