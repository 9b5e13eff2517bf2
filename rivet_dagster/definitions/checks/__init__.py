"""Asset checks: their results, and the steps that check gated sources."""
