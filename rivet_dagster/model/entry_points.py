"""Finding plugins by entry point, and judging what a profile gives them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Protocol

from rivet_dagster.errors import Diagnostic, RivetError, nearest

CATALOGS = "rivet_dagster.catalogs"
ENGINES = "rivet_dagster.engines"

_BUILT_IN = {
    CATALOGS: {"filesystem": "rivet_dagster.catalogs.filesystem:FilesystemCatalog"},
    ENGINES: {"pyspark": "rivet_dagster.engines.pyspark:PySparkEngine"},
}
"""Also found where the package runs from its source tree, without an installed distribution."""


class Plugin(Protocol):
    """What catalogs and engines have in common."""

    options: ClassVar[frozenset[str]]

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """What is wrong with the values of ``options``: a sentence by key."""


def plugins(group: str) -> dict[str, EntryPoint]:
    """The plugins of ``group`` by their type, none of them imported.

    >>> sorted(plugins(CATALOGS))
    ['filesystem'...]
    """
    built_in = {name: EntryPoint(name, value, group) for name, value in _BUILT_IN[group].items()}
    return built_in | {point.name: point for point in entry_points(group=group)}


def plugin_class(group: str, type_: str) -> Any:
    """The class of the plugin ``type_``. Raises RVT-109 where there is none or it cannot be imported."""
    kind = "catalog" if group == CATALOGS else "engine"
    known = plugins(group)
    if type_ not in known:
        raise RivetError("RVT-109", f"no {kind} is of type '{type_}'{nearest(type_, known)}")
    try:
        return known[type_].load()
    except (ImportError, AttributeError) as error:
        message = f"the {kind} type '{type_}' ({known[type_].value}) cannot be imported: {error}"
        raise RivetError("RVT-109", message) from error


def option_errors(plugin: type[Plugin], subject: str, options: Mapping[str, Any]) -> list[Diagnostic]:
    """What is wrong with the options given to ``plugin``: unknown keys, wrong values, missing ones.

    ``subject`` begins each message, as in ``catalog 'raw'``.
    """
    found = []
    for key in sorted(set(options) - plugin.options):
        message = f"{subject} has the unknown option '{key}'{nearest(key, plugin.options)}"
        found.append(Diagnostic("RVT-103", message))
    for key, sentence in plugin.check(options).items():
        found.append(Diagnostic("RVT-104" if key in options else "RVT-105", f"{subject}: `{key}` {sentence}"))
    return found


def refuse_wrong_options(plugin: type[Plugin], subject: str, options: Mapping[str, Any]) -> None:
    """Raise one RivetError with all of ``option_errors`` where there are any."""
    if found := option_errors(plugin, subject, options):
        raise RivetError.of(found)


def is_unexpanded(value: Any) -> bool:
    """Whether ``value`` still waits for an environment variable, so that nobody can judge it yet.

    >>> is_unexpanded("${DATA}/raw"), is_unexpanded(2)
    (True, False)
    """
    return isinstance(value, str) and "${" in value
