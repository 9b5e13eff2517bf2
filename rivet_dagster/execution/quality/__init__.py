"""How a run judges rows: what is judged, and the verdicts."""
