"""Schedules: one kind a file."""
