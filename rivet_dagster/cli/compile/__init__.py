"""``rivet-dagster compile``: the plan as text, tree, Mermaid or JSON, and its difference from another."""
