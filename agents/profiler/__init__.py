"""The optimistic profiler: how a job reacts to cores, measured at a few counts while it trains.

``search.py`` decides which count comes next, ``meter.py`` measures it, ``estimate.py`` says what that tells and how
sure it is, ``record.py`` is what is told to the scheduler, which models the effect of memory
(``scheduler/core/performance/optimistic.py``).

Source: Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters" (Synergy), OSDI 2022.
"""
