"""One workload twice: run for real on two agents, and replayed in the simulator with what was measured on them."""
