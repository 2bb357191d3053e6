"""The whole system in one process on a virtual clock, and everything that may go wrong with it.

Real: scheduler services, engine, core, agent life cycle and executor, supervision, protocol. Simulated: clocks, broker,
disks, processes, training. Every run follows from its seed.
"""
