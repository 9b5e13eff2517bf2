"""Joints as assets: the steps that make them, and what a reader of a project selects of them."""
