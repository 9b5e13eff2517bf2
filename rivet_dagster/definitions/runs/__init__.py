"""What Dagster's runs and event log tell a step, and what a step tells them."""
