"""The small world of REST, for what members try; files that need the live engine make a world of their own."""

from tests.integration.api.conftest import _quiet, world

__all__ = ["_quiet", "world"]
