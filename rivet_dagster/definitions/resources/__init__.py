"""Resources of a project: its engines and its IO manager."""
