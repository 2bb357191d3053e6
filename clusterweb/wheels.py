"""``make wheels``: packs what is installed where no tree is: the runtime for scripts, and the client with its command.

The tree has one copy of each. The client is packed as it stands. The runtime is packed under a name of its own,
``clusterweb_runtime``, with the files of the agent that it imports: found by its imports and placed inside it, so that
a package ``agents`` of another project can be there too (docs/adr/0014). uv builds the wheels without the network.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = "clusterweb_runtime"
# Files of the agent keep their paths below this package.
OTHERS = f"{RUNTIME}.of_agent"
TABLE = """
[project]
name = "{name}"
version = "{version}"
description = "{description}"
requires-python = "{python}"
license-files = ["LICENSE"]
dependencies = [{dependencies}]
{scripts}
[build-system]
requires = ["uv_build"]
build-backend = "uv_build"

[tool.uv.build-backend]
module-root = ""
module-name = "{module}"
"""
CLIENT = {
    "name": "clusterweb",
    "module": "clusterweb",
    "description": "Submit jobs to a Clusterweb server and follow them: a command and a client for Python",
    "dependencies": '"pathspec>=0.12.1"',
    "scripts": '[project.scripts]\nclusterweb = "clusterweb.cli.main:main"\n',
}
LIBRARY = {
    "name": "clusterweb-runtime",
    "module": RUNTIME,
    "description": "Progress, checkpoints and stops of training scripts that Clusterweb runs; standard library only",
    "dependencies": "",
    "scripts": "",
}


def main() -> None:
    """Build both into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist", help="where they go (dist)")
    out = parser.parse_args().folder
    for table, sources in ((CLIENT, client_sources()), (LIBRARY, runtime_sources())):
        with tempfile.TemporaryDirectory() as stage:
            _lay_out(Path(stage), table, sources)
            _build(Path(stage), out)


def client_sources() -> dict[str, str]:
    """Return the files of the client, by their path in the wheel."""
    files = [ROOT / "clusterweb" / "__init__.py"]
    files += [path for room in ("client", "cli") for path in sorted((ROOT / "clusterweb" / room).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): path.read_text() for path in files}


def runtime_sources() -> dict[str, str]:
    """Return the files of the runtime and what they import of the agent, by their path in the wheel."""
    waiting = sorted((ROOT / "agents" / "runtime").rglob("*.py"))
    found: dict[str, str] = {}
    while waiting:
        path = waiting.pop()
        inside = _place(".".join(path.relative_to(ROOT).with_suffix("").parts)).replace(".", "/") + ".py"
        if inside in found:
            continue
        text = path.read_text()
        found[inside] = _renamed(text)
        waiting += [file for module in _imported(text) for file in _files_of(module)]
    return found


def _files_of(module: str) -> Iterator[Path]:
    """Yield the file of a module and those of the packages that it is in; nothing for a name within a module."""
    path = ROOT.joinpath(*module.split("."))
    if path.with_suffix(".py").is_file():
        yield path.with_suffix(".py")
    yield from (folder / "__init__.py" for folder in (path, *path.parents) if (folder / "__init__.py").is_file())


def _imported(text: str) -> Iterator[str]:
    """Yield the modules of the agent that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "agents":
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.partition(".")[0] == "agents")


def _place(module: str) -> str:
    """Return the name in the wheel of a module of the agent."""
    if module == "agents.runtime" or module.startswith("agents.runtime."):
        return RUNTIME + module.removeprefix("agents.runtime")
    return OTHERS + module.removeprefix("agents")


def _renamed(text: str) -> str:
    """Return a file with the names of the wheel: in imports all, in sentences and examples that of the runtime."""
    text = re.sub(r"\bagents\.runtime\b", RUNTIME, text)
    return re.sub(r"^(\s*(?:from|import) )agents\b", rf"\1{OTHERS}", text, flags=re.MULTILINE)


def _lay_out(stage: Path, table: Mapping[str, str], sources: Mapping[str, str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = {"version": project["version"], "python": project["requires-python"]}
    (stage / "pyproject.toml").write_text(TABLE.format(**table, **known))
    shutil.copy(ROOT / "LICENSE", stage)
    for name, text in sources.items():
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).write_text(text)
    (stage / table["module"] / "py.typed").touch()


def _build(stage: Path, out: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "build", "--wheel", "--quiet", "--offline", "--out-dir", str(out.absolute()), str(stage)]
    subprocess.run(command, check=True, env={**os.environ, "UV_NO_CONFIG": "1"})  # noqa: S603  # of our own


if __name__ == "__main__":
    main()
