"""Schedules, one module for each kind."""
