"""The compile cache: results of earlier compilations, so that only changed files and queries are parsed again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Set
from functools import cached_property
from typing import Any


class CompileCache:
    """Plain data (what JSON can hold), keyed by the text from which it was computed and by nothing else.

    It only saves time: the caller computes a missing value and puts it into the cache. ``known`` holds values as JSON
    text, parsed when they are read; ``used`` holds what this compilation read or added: all that the next can need.
    ``added`` is the part of it that is not in ``known``.

    >>> cache = CompileCache()
    >>> cache.get("length", "abc"), cache.put("length", "abc", 3), cache.get("length", "abc")
    (None, None, 3)
    >>> CompileCache(cache.used).get("length", "abc")
    3
    """

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self.known = {} if known is None else known
        self._got: dict[str, str] = {}
        self._new: dict[str, str] = {}
        self._received: dict[str, str] = {}
        self._awaited: Set[str] = frozenset()
        self._ask: Callable[[], Mapping[str, str]] | None = None
        self._taken: dict[str, str] = {}

    def get(self, kind: str, text: str) -> Any:
        """Return the value computed from ``text``, None where there is none."""
        return self.at(key_of(kind, text))

    def at(self, key: str) -> Any:
        """Return the value with this key (see ``key_of``), None where there is none."""
        if key in self._new:
            return _JSON.raw_decode(self._new[key])[0]
        cached = self.known.get(key)
        if cached is not None:
            self._got[key] = cached
            return _JSON.raw_decode(cached)[0]
        if self._ask is not None and key in self._awaited:
            ask, self._ask, self._awaited = self._ask, None, frozenset()
            self.receive(ask())
        cached = self._received.get(key)
        if cached is None:
            return None
        self._taken[key] = cached
        self.__dict__.pop("added", None)
        return _JSON.raw_decode(cached)[0]

    def receive(self, values: Mapping[str, str]) -> None:
        """Add values, as JSON, that another process has computed."""
        self._received.update(values)

    def await_values(self, keys: Set[str], ask: Callable[[], Mapping[str, str]]) -> None:
        """Add the values that ``ask`` returns, as JSON; it is called when a value of ``keys`` is needed."""
        self._awaited, self._ask = keys, ask

    def is_awaited(self, kind: str, text: str) -> bool:
        """Return whether the value computed from ``text`` is best asked for after others."""
        return self._ask is not None and key_of(kind, text) in self._awaited

    @property
    def awaits_values(self) -> bool:
        """Whether values of another process are still to come."""
        return self._ask is not None

    def put(self, kind: str, text: str, value: Any) -> None:
        """Add a value, which must not be None."""
        self._new[key_of(kind, text)] = _line(value)
        self.__dict__.pop("added", None)

    @property
    def used(self) -> dict[str, str]:
        """The values that this compilation read or added, each as one line of JSON, those of earlier ones first."""
        return self._got | self.added

    @cached_property
    def added(self) -> dict[str, str]:
        """The values that this compilation added, each as one line of JSON."""
        return self._taken | self._new

    @property
    def unused(self) -> int:
        """The number of values that this compilation did not need, or replaced."""
        return len(self.known) - len(self._got.keys() - self._new.keys())


_JSON = json.JSONDecoder()
_line = json.JSONEncoder(separators=(",", ":")).encode


def key_of(kind: str, text: str) -> str:
    """Return the key of the value of a kind that is computed from ``text``."""
    return f"{kind} {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
