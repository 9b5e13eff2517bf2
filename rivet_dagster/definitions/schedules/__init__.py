"""Schedules: what each kind of them starts."""
