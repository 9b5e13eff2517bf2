"""Metadata of assets."""
