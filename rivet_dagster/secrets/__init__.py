"""Secrets: their names, the options and variables that hold them, and their redaction in every text."""
