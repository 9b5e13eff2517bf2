"""Resources of a project: its engines, its IO manager, and the executor of its steps."""
