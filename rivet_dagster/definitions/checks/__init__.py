"""Asset checks: their results, and the steps that judge sources."""
