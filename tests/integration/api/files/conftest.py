"""The world that the command reaches over a port, for tests of files."""

from tests.integration.api.jobs.conftest import shop

__all__ = ["shop"]
