"""Calls of the operating system, counted: what an operation costs without a clock."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_QUIET = ("stat", "lstat", "readlink", "fsync")
"""Calls of ``os`` that raise no audit event."""

_COUNTED: dict[int, Counter[str]] = {}
"""The counters, by the thread that counts: heartbeats of others do not."""


def _count(event: str, _: object = None) -> None:
    counted = _COUNTED.get(threading.get_ident())
    if counted is not None and event.startswith(("open", "os.")):
        counted["calls"] += 1


sys.addaudithook(_count)


@contextmanager
def counting_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count the calls that Python's library makes in this thread, as ``calls``."""

    def counting(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def call_and_count(*arguments: Any, **options: Any) -> Any:
            _count(f"os.{name}")
            return call(*arguments, **options)

        return call_and_count

    counted: Counter[str] = Counter()
    with monkeypatch.context() as patched:
        for name in _QUIET:
            patched.setattr(os, name, counting(name, getattr(os, name)))
        _COUNTED[threading.get_ident()] = counted
        try:
            yield counted
        finally:
            del _COUNTED[threading.get_ident()]
