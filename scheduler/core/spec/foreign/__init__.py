"""Jobs written for other schedulers, turned into a spec of ours, with a list of what did not map and why."""
