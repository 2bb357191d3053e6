"""The live shell: database to snapshot, plan to leases, agent reports to database."""
