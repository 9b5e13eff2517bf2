"""The options of the engine ``duckdb``, and the settings of a database that they make."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.engines.option_values import wrong_values
from rivet_dagster.model import convert
from rivet_dagster.model.profile import EngineSpec

OPTIONS = frozenset({"memory_limit", "threads", "temp_directory", "config", "dialect", "max_fusion_depth"})
PATHS = frozenset({"temp_directory"})
DUCKDB = "duckdb"
"""The name of DuckDB's SQL, as sqlglot has it."""

_OWN = ("memory_limit", "threads", "temp_directory")
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)?\s*([KMGT]i?B|%)\Z", re.IGNORECASE)

_OF_MEANING = frozenset(
    {
        "default_collation",
        "default_null_order",
        "default_order",
        "disabled_optimizers",
        "ieee_floating_point_ops",
        "integer_division",
        "lambda_syntax",
        "null_order",
        "old_implicit_casting",
        "order_by_non_integer_literal",
        "preserve_identifier_case",
        "scalar_subquery_error_on_multiple_rows",
        "schema",
        "search_path",
    }
)
"""Settings with which the same SQL has other rows, or finds other tables."""

_DEFAULTS = {
    # A run does not depend on a network, nor on extensions that somebody else has installed.
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


def _memory(value: Any) -> str:
    text = convert.text(value)
    if not _MEMORY.match(text):
        raise ValueError(f"must be an amount like 4GB or 512MiB, or a part of the memory like 50%, not {text!r}")
    return text


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "memory_limit": _memory,
    "threads": convert.whole(1),
    "temp_directory": convert.text,
    "dialect": convert.Choice("spark", DUCKDB),
    "max_fusion_depth": convert.whole(1),
}

_COMPILED = frozenset({"dialect", "max_fusion_depth"})
"""Options that the compiler needs; it does not know the values of variables."""


def wrong_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the values of ``options``: a sentence by key.

    >>> wrong_options({"memory_limit": "much", "config": {"default_order": "desc"}})["config"]
    'default_order would give the same SQL another meaning'
    """
    wrong = wrong_values(options, _CONVERTERS, _COMPILED)
    config = options.get("config", {})
    if not isinstance(config, Mapping):
        return wrong | {"config": f"must be a mapping, not {convert.show(config)}"}
    for key, value in config.items():
        if (why := _wrong_setting(key, value)) is not None:
            wrong["config"] = f"{key} {why}"
    return wrong


def _wrong_setting(key: Any, value: Any) -> str | None:
    if not isinstance(key, str) or not _SETTING.match(key):
        return "is no name of a setting of DuckDB"
    if key.lower() in _OF_MEANING:
        return "would give the same SQL another meaning"
    if key.lower() in _OWN:
        return f"is an option of the engine itself: write `{key.lower()}` beside `config`"
    try:
        convert.setting(value)
    except ValueError as error:
        return str(error)
    return None


def database_config(spec: EngineSpec, root: Path) -> dict[str, str]:
    """Return the settings with which the database starts.

    What does not fit into memory is written below the project's ``.rivet``, unless ``temp_directory`` is given.

    >>> database_config(EngineSpec("duck", "duckdb", options={"threads": 2}), Path("/project"))["temp_directory"]
    '/project/.rivet/duckdb/duck'
    """
    options = spec.options
    own = {key: str(options[key]) for key in _OWN if key in options}
    own.setdefault("temp_directory", str(root.resolve() / ".rivet" / "duckdb" / spec.name))
    return _DEFAULTS | own


def further_settings(spec: EngineSpec) -> dict[str, str]:
    """Return the settings in ``config``.

    >>> further_settings(EngineSpec("duck", "duckdb", options={"config": {"TimeZone": "UTC"}}))
    {'TimeZone': 'UTC'}
    """
    return {key: convert.setting(value) for key, value in spec.options.get("config", {}).items()}
