"""The runtime by the name that its wheel has, for jobs, where nothing need be installed: ``agents.runtime``, once.

``clusterweb_runtime.gang`` is the very module ``agents.runtime.gang``, so that a script may use either name, or both.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from agents.runtime import EXIT_STOPPED, BadEnvironment, Run, RuntimeMisuse, StateMismatch, StateUnsavable

__all__ = ["EXIT_STOPPED", "BadEnvironment", "Run", "RuntimeMisuse", "StateMismatch", "StateUnsavable"]


class _SameModule(MetaPathFinder, Loader):
    """Finds every module of this package in ``agents.runtime``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.startswith(f"{__name__}.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        own = importlib.import_module("agents.runtime" + spec.name.removeprefix(__name__))
        spec.loader_state = own.__spec__
        return own

    def exec_module(self, module: ModuleType) -> None:
        # It has run under its own name; the import has just given it the spec of this one.
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.insert(0, _SameModule())
