"""Environments on catalogs whose tables have branches: a branch of each table that was built there."""
