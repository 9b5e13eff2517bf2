"""Checks as asset checks."""
