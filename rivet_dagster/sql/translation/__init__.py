"""Spark's SQL on other engines: what is proven to give the same rows there, and its translation."""

from __future__ import annotations

from rivet_dagster.sql.translation.model import Refusal, Translation
from rivet_dagster.sql.translation.translator import translate

__all__ = ["Refusal", "Translation", "translate"]
