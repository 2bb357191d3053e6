"""Reads the files that the Python environment of a job is built from, and says what is wrong with them."""

import difflib
from functools import lru_cache

from agents.protocol.environments import PACKED_CHARS, files_pack
from scheduler.core.model.errors import FieldError
from scheduler.core.spec.limits import ENVIRONMENT_FILE_BYTES
from scheduler.core.spec.python import PROJECT, requirements_problem
from scheduler.core.spec.reading import is_storable
from scheduler.core.spec.spec import JobSpec
from scheduler.core.spec.units import format_size
from scheduler.services.code.store import blob_path, manifest_read

CONTENTS_KEPT = 32  # of files of sent folders, which never change
# So few bytes fit into a message whatever they are: not even escaped and packed they take more.
SURELY_FITS_BYTES = PACKED_CHARS // 9


class FileRefused(Exception):
    """A file cannot be used; carries the code of the error and a sentence."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def environment_errors(spec: JobSpec) -> list[FieldError]:
    """Return what is wrong with the files of the environment that a spec asks for; it asks for one that is built."""
    try:
        environment_files(spec)
    except FileRefused as refused:
        assert spec.python is not None
        pointer = "/python/lock" if spec.python.lock else "/python/requirements"
        return [FieldError(pointer=pointer, code=refused.code, detail=refused.detail)]
    return []


def environment_files(spec: JobSpec) -> dict[str, str]:
    """Return the texts that the environment is built from, by the names that uv gives them.

    Raises:
        FileRefused: One is missing, too large, no text, or asks for what the servers do not give.
    """
    python = spec.python
    assert python is not None
    files = {name: _text(spec, path) for name, path in python.paths.items()}
    if python.requirements and (problem := requirements_problem(files["requirements.txt"], path=python.requirements)):
        raise FileRefused("option", problem)
    if not _fits(tuple(files.items())):
        detail = f"{' and '.join(python.paths.values())} take too much, also when they are packed. List fewer packages."
        raise FileRefused("length", detail)
    return files


@lru_cache(maxsize=4)  # jobs of an array have the same
def _fits(files: tuple[tuple[str, str], ...]) -> bool:
    """Return whether files can be sent to a server: hashes of a lock file hardly get smaller when they are packed."""
    if sum(len(text.encode()) for _, text in files) <= SURELY_FITS_BYTES:
        return True
    return len(files_pack(dict(files))) <= PACKED_CHARS


def _text(spec: JobSpec, path: str) -> str:
    """Return a file as the job will find it: small files of the spec take the place of sent ones."""
    text = spec.files.get(path)
    if text is None:
        text = _sent(spec.code.manifest, path) if spec.code is not None else None
    if text is None:
        raise FileRefused("missing", _missing(spec, path))
    if len(text.encode()) > ENVIRONMENT_FILE_BYTES:
        raise FileRefused("length", f"{path} may take at most {format_size(ENVIRONMENT_FILE_BYTES)}.")
    return text


@lru_cache(maxsize=CONTENTS_KEPT)
def _sent(digest: str, path: str) -> str | None:
    """Return a text file of a sent folder; None where the folder has no such file."""
    manifest = manifest_read(digest)
    file = next((one for one in manifest.files if one.path == path), None) if manifest is not None else None
    if file is None:
        return None
    if file.size > ENVIRONMENT_FILE_BYTES:
        raise FileRefused("length", f"{path} may take at most {format_size(ENVIRONMENT_FILE_BYTES)}.")
    try:
        text = blob_path(file.sha256).read_bytes().decode("utf-8")
    except OSError:
        return None
    except UnicodeDecodeError:
        raise FileRefused("encoding", f"{path} is no text in UTF-8.") from None
    if not is_storable(text):
        raise FileRefused("characters", f"{path} holds a NUL or another character that cannot be stored.")
    return text


def _missing(spec: JobSpec, path: str) -> str:
    manifest = manifest_read(spec.code.manifest) if spec.code is not None else None
    there = (
        [*spec.files, *(file.path for file in manifest.files if manifest is not None)] if manifest else [*spec.files]
    )
    if path.endswith(PROJECT):
        return f"{path} is missing: a lock file is read with the {PROJECT} beside it."
    where = "in the folder nor among the files" if spec.code is not None else "among the files"
    near = difflib.get_close_matches(path, there, n=1, cutoff=0.5)
    hint = f" Do you mean {near[0]}?" if near else ""
    neither = "neither " if spec.code is not None else "not "
    return f"{path} is {neither}{where} of the job.{hint}"
