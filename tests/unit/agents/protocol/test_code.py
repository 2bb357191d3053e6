"""The manifest of a sent folder: one spelling, and what no folder may hold is refused with its name."""

import pytest

from agents.protocol.code import CodeFile, CodeLimits, CodeManifest, CodeRefused

LIMITS = CodeLimits(files=3, num_bytes=100)
SHA = "0" * 64


def file(path: str, **changes: object) -> dict[str, object]:
    """Return a row of a manifest."""
    return {"path": path, "mode": "644", "size": 1, "sha256": SHA, **changes}


def read(*rows: object) -> CodeManifest:
    """Read a manifest of these rows."""
    return CodeManifest.read({"version": 1, "files": list(rows)}, LIMITS)


def test_order_of_files_does_not_matter() -> None:
    """Equal folders have one digest, whatever lists their files."""
    one, other = read(file("b"), file("a/c", mode="755")), read(file("a/c", mode="755"), file("b"))

    assert one.digest == other.digest
    assert [f.path for f in one.files] == ["a/c", "b"]
    assert one.digest != read(file("b"), file("a/c")).digest  # a mode is part of it


def test_written_manifest_is_read_back() -> None:
    """What is stored is checked by its name, and gives the same manifest."""
    manifest = read(file("ü/ß.py"), file("train.py", size=7, sha256="1" * 64))

    assert CodeManifest.decode(manifest.encode(), digest=manifest.digest) == manifest
    with pytest.raises(CodeRefused, match="damaged"):
        CodeManifest.decode(manifest.encode().replace(b"train", b"drain"), digest=manifest.digest)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/etc/passwd", "path"),
        ("C:/windows", "path"),
        ("../up.py", "path"),
        ("a/../../up.py", "path"),
        ("./a", "path"),
        ("a//b", "path"),
        ("a/", "path"),
        ("a\\b", "path"),
        ("", "name"),
        ("a\x00b", "name"),
        ("a\nb", "name"),
        ("gpj\u202e.exe", "name"),
        ("\ud800", "name"),
        ("x" * 256, "name"),
        ("d/" * 600 + "x", "name"),
    ],
    ids=ascii,
)
def test_bad_path_is_refused_with_its_name(path: str, code: str) -> None:
    """No name leads out of the folder, hides what it is, or cannot be written somewhere."""
    with pytest.raises(CodeRefused) as refused:
        read(file(path))

    assert refused.value.code == code
    shown = path.replace("\x00", "\ufffd").replace("\n", "\ufffd").replace("\u202e", "\ufffd")[:20]
    assert shown.replace("\ud800", "\ufffd") in refused.value.detail


@pytest.mark.parametrize(
    ("paths", "code", "named"),
    [
        (("a", "a"), "repeated", "a is there twice"),
        (("a", "a/b"), "repeated", "a is a file and a folder"),
        (("a/b", "a"), "repeated", "a is a file and a folder"),
        (("Readme", "README"), "case", "README and Readme differ by case alone"),
        (("data/a", "Data/b"), "case", "Data and data differ by case alone"),
        (("\u00e9", "e\u0301"), "case", "differ by case alone"),
        (("a", "b", "c", "d"), "number", "at most 3"),
        ((), "number", "no file"),
    ],
)
def test_folder_that_is_no_folder_everywhere_is_refused(paths: tuple[str, ...], code: str, named: str) -> None:
    """A folder means the same on every file system, and has an end."""
    with pytest.raises(CodeRefused) as refused:
        read(*map(file, paths))

    assert (refused.value.code, named in refused.value.detail) == (code, True), refused.value.detail


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "777"},
        {"mode": 644},
        {"size": -1},
        {"size": 1.5},
        {"size": True},
        {"size": 2**60},
        {"sha256": "0" * 63},
        {"sha256": "A" * 64},
        {"owner": "root"},
    ],
    ids=str,
)
def test_bad_row_is_refused_with_its_name(changes: dict[str, object]) -> None:
    """A row says exactly what it must."""
    with pytest.raises(CodeRefused, match=r"a\.py"):
        read(file("a.py", **changes))


def test_bytes_are_limited_with_the_name_at_which_they_end() -> None:
    """The limit is of all files together."""
    with pytest.raises(CodeRefused, match="more than 100 bytes, from b on"):
        read(file("a", size=60), file("b", size=60, sha256="1" * 64))


def test_one_content_has_one_size() -> None:
    """A size is what decides how many bytes of a body belong to a content."""
    with pytest.raises(CodeRefused, match="two sizes"):
        CodeManifest.of([CodeFile(path=p, mode="644", size=s, sha256=SHA) for p, s in (("a", 1), ("b", 2))], LIMITS)
