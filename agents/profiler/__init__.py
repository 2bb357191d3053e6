"""Optimistic profiler: measures the speed of a training job at a few core counts.

``search.py`` decides which count comes next, ``meter.py`` measures it, ``estimate.py`` computes speeds and errors. The
scheduler gets the result (``protocol/profile.py``) and models the effect of memory
(``scheduler/core/performance/optimistic.py``).

Source: Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters" (Synergy), OSDI 2022.
"""
