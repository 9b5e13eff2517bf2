"""How a run writes: a joint's rows, a table's new version, and the values of external assets."""
