"""Replay workloads through ``plan_round`` on a simulated cluster; begin reading at ``replay/engine.py``."""

VERSION = "0.1.0"
