"""Replays workloads through ``plan_round``: what would have happened, what would happen."""

VERSION = "0.1.0"
