"""Declarative automation: conditions, and freshness policies beside them."""
