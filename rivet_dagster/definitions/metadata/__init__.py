"""Metadata of assets: one part of it a file."""
