"""Unpacks an uploaded zip or tar into contents and a manifest, entry by entry. Runs in ``archive_child`` alone.

What git brings goes through the same checks, by ``entries_unpack``.

Nothing that an archive says of itself is believed: names and kinds are checked before anything of an entry is read,
bytes are counted while they come out. Only regular files are taken; folders are made by the paths of files.
"""

import hashlib
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from agents.protocol.code import CodeFile, CodeLimits, CodeManifest, CodeRefused, NameCheck, check_path, shown_name

CHUNK_BYTES = 1024 * 1024
# Entries for each file that is allowed: folders have entries, too.
ENTRIES_A_FILE = 4
ENCRYPTED = 0x1
# What an entry may be that is refused, and the short word for it.
ODD = {"a link": "link", "a device": "device", "a submodule": "submodule"}
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    UnicodeError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of an archive; ``odd`` says what it is where it is neither a file nor a folder."""

    path: str
    is_executable: bool
    open: Callable[[], IO[bytes] | None]
    is_folder: bool = False
    odd: str = ""


def archive_unpack(path: Path, target: Path, limits: CodeLimits) -> CodeManifest:
    """Write the contents of an archive into ``target``, each named by its SHA-256, and return the manifest.

    A folder that holds all the rest, as in archives of a whole folder, is left out of the paths.

    Args:
        path: A zip, or a tar that is plain or packed by gzip, bzip2 or xz.
        target: An empty folder.
        limits: How much it may hold.

    Raises:
        CodeRefused: It is no archive, is broken, or holds what a folder may not; with the name of the entry.
        OSError: A content cannot be written.
    """
    return CodeManifest.of(_without_top(entries_unpack(_entries(path), target, limits)), limits)


def entries_unpack(entries: Iterable[Entry], target: Path, limits: CodeLimits) -> list[CodeFile]:
    """Write the contents of entries into ``target``, each named by its SHA-256. Raises as ``archive_unpack`` does."""
    names = NameCheck(limits)
    files: list[CodeFile] = []
    for number, entry in enumerate(entries, start=1):
        name = shown_name(entry.path)
        if number > ENTRIES_A_FILE * limits.files:
            raise CodeRefused("number", f"The archive has more than {ENTRIES_A_FILE * limits.files:,} entries.")
        if entry.odd:
            raise CodeRefused(ODD[entry.odd], f"{name} is {entry.odd}; only files and folders can be sent.")
        if entry.is_folder:
            if entry.path.strip("/.") or entry.path.startswith(("/", "..")):  # "./" is the folder itself
                check_path(entry.path.removeprefix("./").rstrip("/"))
            continue
        plain = entry.path.removeprefix("./")
        check_path(plain)
        if _is_of_macos(plain):
            continue
        names.add(plain)
        sha256, size = _written(entry, plain, target, names)
        files.append(CodeFile(path=plain, mode="755" if entry.is_executable else "644", size=size, sha256=sha256))
    return files


def _entries(path: Path) -> Iterator[Entry]:
    with _told("The archive"):
        is_zip = zipfile.is_zipfile(path)
    if is_zip:
        with _told("The archive"):
            packed = zipfile.ZipFile(path)
        with packed:
            yield from (_of_zip(packed, info) for info in packed.infolist())
        return
    try:
        archive = tarfile.open(path)  # noqa: SIM115  (closed below)
    except _BROKEN:
        raise CodeRefused("shape", "This is neither a zip nor a tar file.") from None
    with archive:
        while True:
            with _told("The archive"):
                member = archive.next()
            if member is None:
                return
            archive.members.clear()  # type: ignore[attr-defined]  # else it keeps all that it has read
            yield _of_tar(archive, member)


def _of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Entry:
    name = info.orig_filename  # ``filename`` ends at the first NUL
    mode = info.external_attr >> 16
    if info.flag_bits & ENCRYPTED:
        raise CodeRefused("shape", f"{shown_name(name)} is encrypted. Make the archive without a password.")
    return Entry(
        path=name,
        is_executable=bool(mode & stat.S_IXUSR),
        is_folder=name.endswith("/"),
        odd=_odd(stat.S_IFMT(mode)),
        open=lambda: archive.open(info),
    )


def _of_tar(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    odd = ""
    if member.issym() or member.islnk():
        odd = "a link"
    elif not (member.isreg() or member.isdir()):
        odd = "a device"
    return Entry(
        path=member.name,
        is_executable=bool(member.mode & stat.S_IXUSR),
        is_folder=member.isdir(),
        odd=odd,
        open=lambda: archive.extractfile(member),
    )


def _odd(kind: int) -> str:
    if kind in (0, stat.S_IFREG, stat.S_IFDIR):  # 0: packed where files have no kind
        return ""
    return "a link" if kind == stat.S_IFLNK else "a device"


def _written(entry: Entry, name: str, target: Path, names: NameCheck) -> tuple[str, int]:
    """Write the content of an entry as it comes out, and return its SHA-256 and size."""
    content_hash, size, partial = hashlib.sha256(), 0, target / ".partial"
    with _told(shown_name(name)):
        source = entry.open()
    assert source is not None  # of a regular file
    with source, partial.open("wb") as file:
        while True:
            with _told(shown_name(name)):
                chunk = source.read(CHUNK_BYTES)
            if not chunk:
                break
            names.grow(name, len(chunk))
            size += len(chunk)
            content_hash.update(chunk)
            file.write(chunk)
    partial.replace(target / content_hash.hexdigest())
    return content_hash.hexdigest(), size


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Turn what is wrong with the packing into a sentence."""
    try:
        yield
    except _BROKEN:
        raise CodeRefused("shape", f"{name} is damaged: it cannot be unpacked.") from None


def _is_of_macos(path: str) -> bool:
    return path.startswith("__MACOSX/") or path.rpartition("/")[2] == ".DS_Store"


def _without_top(files: list[CodeFile]) -> list[CodeFile]:
    tops = {file.path.partition("/")[0] for file in files}
    if len(tops) != 1 or any("/" not in file.path for file in files):
        return files
    return [replace(file, path=file.path.partition("/")[2]) for file in files]
