"""Joints as assets: the steps that materialize them, their specs, and selections of them."""
