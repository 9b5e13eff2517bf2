"""Spark's SQL on other engines: what is proven to give the same rows there, and its translation."""

from __future__ import annotations

from rivet_dagster.sql.translation.translate import Refusal, Translation, translate

__all__ = ["Refusal", "Translation", "translate"]
