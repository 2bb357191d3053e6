"""Settings of the scheduler: policy, locality, mechanism, pause."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scheduler.models import Cluster
from scheduler.selectors.visibility import Actor


def cluster_row() -> Cluster:
    """Return the one row of the cluster, made on first use."""
    raise NotImplementedError


def settings_change(*, actor: Actor, changes: Mapping[str, Any], expected_version: int, at: datetime) -> Cluster:
    """Change settings from the next round on. Raises NotAllowed, SpecInvalid, Conflict."""
    raise NotImplementedError
