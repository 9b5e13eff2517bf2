"""How a run writes: a joint's rows, a table's new version, and what other Dagster assets return."""
