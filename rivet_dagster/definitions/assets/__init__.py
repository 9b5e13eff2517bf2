"""Joints as assets: the steps that materialize them, and selections and specs of them."""
