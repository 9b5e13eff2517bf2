"""Sensors, one module for each kind."""
