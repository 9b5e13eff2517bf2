"""Configuration of nodes by folder, as dbt_project.yml gives it, and how configurations are put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rivet_dagster.dbt.declared import Config, DbtPlace, Other
from rivet_dagster.dbt.values import UnknownValueError, rendered
from rivet_dagster.dbt.yaml_file import line_of
from rivet_dagster.project.yaml_text import Located

_HOOKS = frozenset({"pre-hook", "post-hook"})
_ADDED = _HOOKS | {"tags"}
_UNUSED = frozenset(
    "schema database grants meta docs access persist_docs file_format location_root tblproperties clustered_by buckets "
    "pre-hook post-hook".split()
)
_MERGED = frozenset({"meta", "grants", "docs"})
_SPELLINGS = {"pre_hook": "pre-hook", "post_hook": "post-hook", "tests": "data_tests"}


def folder_configs(tree: Mapping[str, Any], fqn: Iterable[str], file: str) -> Iterator[Config]:
    """Yield the configurations on the way from the top of a tree to a node, the nearest last.

    A key that begins with ``+`` is one of configuration, and one whose value is no mapping; all others are folders.

    >>> tree = {"+tags": "all", "shop": {"marts": {"materialized": "table"}}}
    >>> [config.values for config in folder_configs(tree, ("shop", "marts", "orders"), "")]
    [{'tags': 'all'}, {}, {'materialized': 'table'}]
    """
    level: Any = tree
    for name in (None, *fqn):
        level = level if name is None else level.get(name)
        if not isinstance(level, Mapping):
            return
        yield located_config(
            {
                key.removeprefix("+").strip(): (value, line_of(level, key))
                for key, value in level.items()
                if key.startswith("+") or not isinstance(value, Mapping)
            },
            file,
        )


def located_config(values: Mapping[str, tuple[Any, int]], file: str) -> Config:
    """Return a configuration of values with their lines."""
    named = {_SPELLINGS.get(key, key): entry for key, entry in values.items()}
    return Config(
        {key: value for key, (value, _) in named.items()},
        {key: DbtPlace(file, line) for key, (_, line) in named.items()},
    )


def config_of(value: Any, file: str) -> Config:
    """Return the configuration in a mapping of a properties file."""
    if not isinstance(value, Located):
        return Config()
    return located_config({key.removeprefix("+"): (item, line_of(value, key)) for key, item in value.items()}, file)


def is_used(key: str) -> bool:
    """Return whether a joint depends on a configuration: what is told of the others does not need their values."""
    return _SPELLINGS.get(key, key) not in _UNUSED


def rendered_config(config: Config, context: Mapping[str, Any]) -> tuple[Config, list[Other]]:
    """Return a configuration with the templates in its values rendered, and what is not known of it.

    Hooks are rendered by dbt when they run, and not here.
    """
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    unknown = []
    for key, value in config.values.items():
        try:
            values[key] = value if key in _HOOKS else rendered(value, context)
        except UnknownValueError as error:
            if is_used(key):
                unknown.append(Other("config", key, config.places[key], str(error)))
                reasons[key] = str(error)
            else:
                values[key] = value
    return Config(values, config.places, reasons), unknown


def merge_configs(configs: Iterable[Config]) -> Config:
    """Return one configuration: the last value counts, but tags and hooks add up, and ``meta`` and grants are merged.

    >>> merge_configs([Config({"tags": "a", "enabled": True}), Config({"tags": ["b"], "enabled": False})]).values
    {'tags': ['a', 'b'], 'enabled': False}
    """
    values: dict[str, Any] = {}
    places: dict[str, DbtPlace] = {}
    unknown: dict[str, str] = {}
    for config in configs:
        unknown = {key: reason for key, reason in unknown.items() if key not in config.values} | dict(config.unknown)
        for key, value in config.values.items():
            if key in _ADDED:
                values[key] = list(dict.fromkeys([*values.get(key, ()), *_hashable(value)]))
            elif key in _MERGED and isinstance(value, Mapping) and isinstance(values.get(key), Mapping):
                values[key] = {**values[key], **value}
            else:
                values[key] = value
        places |= config.places
    return Config(values, places, unknown)


def _hashable(value: Any) -> list[Any]:
    given = value if isinstance(value, list) else [] if value is None else [value]
    return [item if isinstance(item, str) else str(item) for item in given]
