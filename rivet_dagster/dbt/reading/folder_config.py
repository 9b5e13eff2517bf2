"""Configuration of nodes by folder, as dbt_project.yml gives it, and how configurations are put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rivet_dagster.dbt.declared import Config, Place
from rivet_dagster.dbt.yaml_file import line_of
from rivet_dagster.project.yaml_text import Located

_ADDED = frozenset({"tags", "pre-hook", "post-hook"})
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
        {key: value for key, (value, _) in named.items()}, {key: Place(file, line) for key, (_, line) in named.items()}
    )


def config_of(value: Any, file: str) -> Config:
    """Return the configuration in a mapping of a properties file."""
    if not isinstance(value, Located):
        return Config()
    return located_config({key.removeprefix("+"): (item, line_of(value, key)) for key, item in value.items()}, file)


def merged(configs: Iterable[Config]) -> Config:
    """Return one configuration: the last value counts, but tags and hooks add up, and ``meta`` and grants are merged.

    >>> merged([Config({"tags": "a", "enabled": True}), Config({"tags": ["b"], "enabled": False})]).values
    {'tags': ['a', 'b'], 'enabled': False}
    """
    values: dict[str, Any] = {}
    places: dict[str, Place] = {}
    for config in configs:
        for key, value in config.values.items():
            if key in _ADDED:
                values[key] = list(dict.fromkeys([*values.get(key, ()), *_hashable(value)]))
            elif key in _MERGED and isinstance(value, Mapping) and isinstance(values.get(key), Mapping):
                values[key] = {**values[key], **value}
            else:
                values[key] = value
        places |= config.places
    return Config(values, places)


def _hashable(value: Any) -> list[Any]:
    given = value if isinstance(value, list) else [] if value is None else [value]
    return [item if isinstance(item, str) else str(item) for item in given]
