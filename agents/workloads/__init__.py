"""Training scripts that ship with the product: five models of three kinds, each small enough for one CPU core.

Each is one module that is run as ``python -m agents.workloads.<name>``, trains on data that it generates itself, and
works inside and outside Clusterweb. They share one loop (``loop.py``) and one source of data (``data.py``).
"""

WORKLOADS = ("resnet", "mobilenet", "lstm", "transformer", "m5")
