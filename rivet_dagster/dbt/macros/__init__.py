"""Macros of a dbt project: which one a name means, and what it renders."""
