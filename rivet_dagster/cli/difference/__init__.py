"""``rivet-dagster diff``: the difference of an environment from its base, as text, JSON or Markdown."""
