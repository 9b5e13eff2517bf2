"""The values of an engine's options, one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rivet_dagster.entry_points import is_unexpanded


def wrong_values(
    options: Mapping[str, Any], converters: Mapping[str, Callable[[Any], Any]], compiled: Collection[str] = ()
) -> dict[str, str]:
    """Return what the ``converters`` of options say is wrong with their values: a sentence by key.

    A value with an unexpanded ``${`` is not judged, but for the ``compiled`` options: those that the compiler needs,
    which does not know the values of variables.

    >>> from rivet_dagster.model import convert
    >>> wrong_values({"threads": 0, "path": "${DIR}"}, {"threads": convert.whole(1), "path": convert.whole(1)})
    {'threads': 'must be a whole number of at least 1, not 0'}
    """
    wrong = {}
    for key, converter in converters.items():
        if key in options and (key in compiled or not is_unexpanded(options[key])):
            try:
                converter(options[key])
            except ValueError as error:
                wrong[key] = str(error)
    return wrong
