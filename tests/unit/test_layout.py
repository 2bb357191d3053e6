"""The layout of the tree: small folders, a README in each package, and a place for each package in .importlinter."""

import ast
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from clusterweb.config.env import BASE_DIR

PRODUCT = ("agents", "clusterweb", "clusterweb_runtime", "frontend", "scheduler")
MOST_FILES = 16
NOT_COUNTED = {"__init__.py", "__main__.py", "conftest.py"}


def folders(*roots: str) -> list[Path]:
    """Return the folders below the roots that hold Python files, relative to the tree."""
    return sorted({path.parent.relative_to(BASE_DIR) for root in roots for path in (BASE_DIR / root).rglob("*.py")})


def modules_in_contracts() -> set[str]:
    """Return the names of all modules that stand in a contract; ``x.*`` counts as ``x``."""
    contracts = ConfigParser()
    contracts.read(BASE_DIR / ".importlinter")
    named = set()
    for section in contracts.sections():
        options = dict(contracts[section])
        modules = [name for key in ("modules", "source_modules", "protected_modules") for name in _lines(options, key)]
        layers = [_plain(name) for line in _lines(options, "layers") for name in line.replace("|", ":").split(":")]
        containers = _lines(options, "containers")
        modules += [f"{container}.{layer}" for container in containers for layer in layers] or layers
        named |= {name.removesuffix(".*") for name in modules}
    return named


def _plain(name: str) -> str:
    return name.strip().strip("()")


def _lines(options: dict[str, str], key: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in options.get(key, "").splitlines())
    return [line for line in lines if line]


@pytest.mark.parametrize(
    "folder",
    [folder for folder in folders(*PRODUCT, "tests", "benchmarks") if folder.name != "migrations"],
    ids=str,
)
def test_folder_is_small(folder: Path) -> None:
    """A folder is read at a glance; a larger one gets rooms. Migrations are one chain that can only grow."""
    files = [path.name for path in (BASE_DIR / folder).glob("*.py") if path.name not in NOT_COUNTED]

    assert len(files) <= MOST_FILES, sorted(files)


@pytest.mark.parametrize("folder", [folder for folder in folders(*PRODUCT) if folder.name != "migrations"], ids=str)
def test_package_has_a_readme(folder: Path) -> None:
    """A stranger reads what lives here and what may import it."""
    readme = BASE_DIR / folder / "README.md"

    assert readme.is_file(), f"{readme.relative_to(BASE_DIR)} is missing"
    assert readme.read_text().strip()


def test_package_stands_in_a_contract() -> None:
    """Each package, or the room that it is in, has its place in the order of imports."""
    named = modules_in_contracts()
    packages = [".".join(folder.parts) for folder in folders(*PRODUCT)]

    assert [
        name for name in packages if name not in named | set(PRODUCT) and name.rpartition(".")[0] not in named
    ] == []


def imports(path: Path) -> Iterator[str]:
    """Yield the top-level packages that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize(
    ("folder", "others"),
    [
        ("scheduler/core", {"numpy", "scheduler"}),
        ("agents/core", {"agents"}),
        ("agents/protocol", {"agents", "cryptography"}),
    ],
)
def test_core_imports_the_standard_library_and_little_else(folder: str, others: set[str]) -> None:
    """A contract can only forbid packages that it names; this one allows."""
    found = {name for path in (BASE_DIR / folder).rglob("*.py") for name in imports(path)}

    assert found - set(sys.stdlib_module_names) - others == set()
