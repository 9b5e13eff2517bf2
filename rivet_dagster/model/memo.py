"""What earlier compilations found out, so that only what has changed is read again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


class Memo:
    """Values of plain data (what JSON holds) by the text they follow from, and by nothing else.

    It only saves time: whoever recalls nothing works the value out and keeps it. ``known`` are values as JSON, read
    when they are recalled; ``used`` is what this compilation recalled or kept, all that the next one can need.

    >>> memo = Memo()
    >>> memo.recall("length", "abc"), memo.keep("length", "abc", 3), memo.recall("length", "abc")
    (None, None, 3)
    >>> Memo(memo.used).recall("length", "abc")
    3
    """

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self.known = {} if known is None else known
        self._recalled: dict[str, str] = {}
        self._kept: dict[str, Any] = {}

    def recall(self, kind: str, text: str) -> Any:
        """The value kept for ``text``, else None."""
        key = _key(kind, text)
        if key in self._kept:
            return self._kept[key]
        found = self.known.get(key)
        if found is None:
            return None
        self._recalled[key] = found
        return _JSON.raw_decode(found)[0]

    def keep(self, kind: str, text: str, value: Any) -> None:
        """Remember a value that is not None and that will not be changed."""
        self._kept[_key(kind, text)] = value

    @property
    def used(self) -> dict[str, str]:
        """Each value on one line, those recalled first."""
        return self._recalled | {key: json.dumps(value, separators=(",", ":")) for key, value in self._kept.items()}


_JSON = json.JSONDecoder()


def _key(kind: str, text: str) -> str:
    return f"{kind} {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
