"""What a policy's own test holds for the oracles: ``ORDER`` of a list policy, ``SHARES`` of a share policy."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def in_own_test(policy: str, name: str) -> Any:  # an Order or a Shares, as the name says
    """Return what stands under a name in the test of a policy; None where there is no such test or name."""
    module = f"tests.unit.policies.test_{policy.replace('-', '_')}"
    return getattr(import_module(module), name, None) if find_spec(module) else None
