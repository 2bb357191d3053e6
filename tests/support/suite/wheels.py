"""A folder of wheels and source packages made by a test, so that no test of environments needs a package index."""

import base64
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path


class Index:
    """Such a folder, and the variables by which uv knows it and nothing else."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    @property
    def variables(self) -> dict[str, str]:
        """Return the admin's settings."""
        return {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(self.folder)}

    def wheel(self, name: str, version: str, *, needs: tuple[str, ...] = (), code: str = "") -> None:
        """Add a package of one module of its name, which has ``__version__``."""
        info = f"{name}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
        files = {
            f"{name}.py": f"__version__ = {version!r}\n{code}\n",
            f"{info}/METADATA": metadata,
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in files.items())
        files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
        with zipfile.ZipFile(self.folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            for path, text in files.items():
                wheel.writestr(path, text)

    def sha256(self, name: str, version: str) -> str:
        """Return the hash of a wheel in hexadecimal digits."""
        return hashlib.sha256((self.folder / f"{name}-{version}-py3-none-any.whl").read_bytes()).hexdigest()

    def built(self, name: str, version: str, *, build: str) -> None:
        """Add a source package whose build runs some code first: a backend of its own that needs no other package."""
        backend = f"""
def build_wheel(folder, config_settings=None, metadata_directory=None):
{_indented(build)}
    import zipfile, os
    info = "{name}-{version}.dist-info"
    path = "{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, path), "w") as wheel:
        wheel.writestr("{name}.py", "__version__ = '{version}'\\n")
        wheel.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "/RECORD", "{name}.py,,\\n" + info + "/METADATA,,\\n" + info + "/WHEEL,,\\n")
    return path
"""
        project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        project += f'[project]\nname = "{name}"\nversion = "{version}"\n'
        info = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        with tarfile.open(self.folder / f"{name}-{version}.tar.gz", "w:gz") as archive:
            for path, text in (("pyproject.toml", project), ("backend.py", backend), ("PKG-INFO", info)):
                entry = tarfile.TarInfo(f"{name}-{version}/{path}")
                entry.size = len(text.encode())
                archive.addfile(entry, io.BytesIO(text.encode()))


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def _indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.strip().splitlines())
