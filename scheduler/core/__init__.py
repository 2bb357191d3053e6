"""The decision core: pure code that turns a snapshot into a plan.

Standard library and numpy only: no clock, no database, no chance of its own. Policies, localities and mechanisms come
in as arguments. Begin reading at ``round/plan_round.py``.
"""
