"""Separating the errors of a query's evaluation from its rows."""
