"""The world of the REST API's tests, for tests of secrets."""

from tests.integration.api.conftest import _quiet, world

__all__ = ["_quiet", "world"]
