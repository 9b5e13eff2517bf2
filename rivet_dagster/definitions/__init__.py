"""The only home of dagster: the plan as assets, checks, resources and jobs."""
