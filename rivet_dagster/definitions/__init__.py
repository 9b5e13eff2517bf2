"""The plan as Dagster assets, checks, resources, jobs, schedules and sensors.

Only this package and the CLI import dagster.
"""
