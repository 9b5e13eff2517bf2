"""Nested scopes of views, for the sessions of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class ScopedViews:
    """The views of a session by name, in nested scopes; letter case makes no difference.

    ``bind`` makes or replaces the view of a name; ``unbind`` drops it.

    >>> names = {}
    >>> views = ScopedViews(names.__setitem__, names.__delitem__)
    >>> views.register("a", 1)
    >>> with views.scope():
    ...     views.register("a", 2)
    ...     views.register("b", 3)
    ...     print(names)
    {'a': 2, 'b': 3}
    >>> names
    {'a': 1}
    """

    def __init__(self, bind: Callable[[str, Any], None], unbind: Callable[[str], None]) -> None:
        self._bind = bind
        self._unbind = unbind
        self._scopes: list[dict[str, tuple[str, Any]]] = [{}]

    def register(self, name: str, frame: Any) -> None:
        """Make a view of ``frame`` until the innermost scope ends."""
        self._bind(name, frame)
        self._scopes[-1][name.lower()] = name, frame

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Drop the views registered in the block at its end, and restore those that they replaced."""
        self._scopes.append({})
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the block's own error is the one that the user must see
                self._end_scope()
            raise
        self._end_scope()

    def frames(self) -> dict[str, Any]:
        """Return the frames of all views by the lower case of their names."""
        return {key: frame for scope in self._scopes for key, (_, frame) in scope.items()}

    def clear(self) -> None:
        """Drop all views."""
        while self._scopes[0]:
            _, (name, _) = self._scopes[0].popitem()
            self._unbind(name)

    def _end_scope(self) -> None:
        for key, (name, _) in self._scopes.pop().items():
            before = next((scope[key] for scope in reversed(self._scopes) if key in scope), None)
            if before is None:
                self._unbind(name)
            else:
                self._bind(*before)
