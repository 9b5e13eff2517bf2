"""Commits to a table's metadata: their parts, and how they are carried out beside those of others."""
