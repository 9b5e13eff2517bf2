"""Generic data tests as properties files list them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rivet_dagster.dbt.declared import DataTest, DbtPlace
from rivet_dagster.project.yaml_text import Located

_AT_TEST = frozenset({"name", "description", "config", "arguments", "column_name", "test_name", "docs", "meta", "tags"})
_TEST_CONFIG = frozenset(
    {"severity", "where", "limit", "warn_if", "error_if", "fail_calc", "enabled", "store_failures"}
)
_TEST_CONFIG = _TEST_CONFIG | {"store_failures_as", "alias", "schema", "database", "group", "sql_header"}


def data_test(
    item: Any, place: DbtPlace, column: str | None, quote: bool, described: Callable[[Mapping[str, Any]], str]
) -> DataTest | None:
    """Return a test as it is listed at a node or a column; None for what is neither a name nor a mapping."""
    if isinstance(item, str):
        return DataTest(item, place, column=column, quote=quote)
    if not isinstance(item, Located) or not item:
        return None
    beside: Mapping[str, Any] = {}
    if isinstance(item.get("test_name"), str):
        macro, inner = item["test_name"], item
    else:
        macro = next(iter(item))
        inner, beside = item[macro], {key: value for key, value in item.items() if key != macro}
    if inner is None:
        inner = {}
    if not isinstance(inner, Mapping):
        return None
    given = {**beside, **inner}
    config = dict(given.get("config") or {}) if isinstance(given.get("config"), Mapping) else {}
    config |= {key: given[key] for key in _TEST_CONFIG if key in given}
    arguments = {key: value for key, value in given.items() if key not in _AT_TEST | _TEST_CONFIG}
    if isinstance(given.get("arguments"), Mapping):
        arguments |= given["arguments"]
    elif "arguments" in given:
        arguments["arguments"] = given["arguments"]
    column = str(given["column_name"]) if "column_name" in given else column
    tags = config.pop("tags", given.get("tags")) or []
    return DataTest(
        macro=macro,
        place=place,
        arguments=arguments,
        config=config,
        column=column,
        quote=quote,
        name=_text(given.get("name")),
        description=described(given),
        tags=tuple(map(str, tags if isinstance(tags, list) else [tags])),
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
