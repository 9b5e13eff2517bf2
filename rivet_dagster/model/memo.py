"""What earlier compilations found out, so that only what has changed is read again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any


class Memo:
    """Values of plain data (what JSON holds) by the text they follow from, and by nothing else.

    It only saves time: whoever recalls nothing works the value out and keeps it. ``used`` is what this compilation
    recalled or kept, all that the next one can need.

    >>> memo = Memo()
    >>> memo.recall("length", "abc"), memo.keep("length", "abc", 3), memo.recall("length", "abc")
    (None, None, 3)
    """

    def __init__(self, known: Mapping[str, Any] | None = None) -> None:
        self.known = {} if known is None else known
        self.used: dict[str, Any] = {}

    def recall(self, kind: str, text: str) -> Any:
        """The value kept for ``text``, else None."""
        key = _key(kind, text)
        value = self.used.get(key)
        if value is None:
            value = self.known.get(key)
            if value is not None:
                self.used[key] = value
        return value

    def keep(self, kind: str, text: str, value: Any) -> None:
        """Remember a value that is not None and that will not be changed."""
        self.used[_key(kind, text)] = value


def _key(kind: str, text: str) -> str:
    return f"{kind} {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
