"""The compile cache: what earlier compilations found out, so that only what has changed is read again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


class CompileCache:
    """Values of plain data (what JSON holds) by the text they follow from, and by nothing else.

    It only saves time: what it lacks is worked out and put into it. ``known`` are values as JSON, read when they are
    got; ``used`` is what this compilation got or put, all that the next one can need.

    >>> cache = CompileCache()
    >>> cache.get("length", "abc"), cache.put("length", "abc", 3), cache.get("length", "abc")
    (None, None, 3)
    >>> CompileCache(cache.used).get("length", "abc")
    3
    """

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self.known = {} if known is None else known
        self._got: dict[str, str] = {}
        self._new: dict[str, Any] = {}

    def get(self, kind: str, text: str) -> Any:
        """Return the value for ``text``, else None."""
        key = _key(kind, text)
        if key in self._new:
            return self._new[key]
        found = self.known.get(key)
        if found is None:
            return None
        self._got[key] = found
        return _JSON.raw_decode(found)[0]

    def put(self, kind: str, text: str, value: Any) -> None:
        """Add a value that is not None and that will not be changed."""
        self._new[_key(kind, text)] = value

    @property
    def used(self) -> dict[str, str]:
        """Each value on one line, those of earlier compilations first."""
        return self._got | {key: json.dumps(value, separators=(",", ":")) for key, value in self._new.items()}


_JSON = json.JSONDecoder()


def _key(kind: str, text: str) -> str:
    return f"{kind} {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
