"""Sensors: one kind a file."""
