"""The live shell: database to snapshot, plan to leases, agents' reports to database."""
