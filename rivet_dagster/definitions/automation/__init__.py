"""Declarative automation: automation conditions, and freshness policies."""
