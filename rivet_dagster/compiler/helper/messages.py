"""Messages from one process to another, in a file: neither has to wait until the other one reads.

The other one of two processes that share work.

Portions of work that two processes share: whoever is free takes the next one.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

Notes = Mapping[str, Any]
"""The content of a message, as plain data."""


class Messages:
    """A file of messages, which one process writes and one reads. Each has notes, and may have values of the cache.

    >>> from tempfile import TemporaryFile
    >>> with TemporaryFile() as file:
    ...     messages = Messages(file.fileno())
    ...     messages.send({"portion": 3}, b"part")
    ...     list(messages.receive()), list(messages.receive())
    ([({'portion': 3}, b'part')], [])
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0

    def send(self, notes: Notes, values: bytes = b"") -> None:
        """Write a message. Raise OSError."""
        line = json.dumps([notes, len(values)]).encode()
        content = memoryview(b"%b\n%b" % (line, values))
        while content:
            content = content[os.write(self._descriptor, content) :]

    def receive(self) -> Iterator[tuple[Notes, bytes]]:
        """Yield the messages that are complete and have not been received yet. Raise ValueError where it is none."""
        content = os.pread(self._descriptor, os.fstat(self._descriptor).st_size - self._position, self._position)
        start = 0
        while (end := content.find(b"\n", start)) >= 0:
            notes, size = json.loads(content[start:end])
            following = end + 1 + size
            if following > len(content):
                return
            self._position += following - start
            start = following
            yield notes, content[end + 1 : following]


class Partner(ABC):
    """The other process, as one of them sees it."""

    @abstractmethod
    def send(self, notes: Notes) -> None:
        """Tell it something, after a portion of work."""

    @abstractmethod
    def receive(self) -> Iterator[Notes]:
        """Yield what it has told since the last call, in order."""

    @abstractmethod
    def wait(self) -> bool:
        """Wait a moment; return whether it may still tell something."""


_Item = TypeVar("_Item")

_LEAST = 40
"""The least number of items in a portion."""

_MOST = 1_000
"""The greatest number of portions: so many numbers always fit into a pipe."""

_WIDTH = 2


def portions(items: Sequence[_Item]) -> list[Sequence[_Item]]:
    """Return the items in portions, in order.

    >>> [len(portion) for portion in portions(range(100))]
    [40, 40, 20]
    """
    size = max(_LEAST, -(-len(items) // _MOST))
    return [items[start : start + size] for start in range(0, len(items), size)]


class Numbers:
    """The numbers of portions, in a pipe from which both processes read them.

    >>> numbers = Numbers()
    >>> numbers.fill(3)
    >>> list(taken(numbers.reader))
    [0, 1, 2]
    """

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()

    def fill(self, count: int) -> None:
        """Let the numbers below ``count`` be taken, and then no more."""
        os.write(self._writer, b"".join(number.to_bytes(_WIDTH, "big") for number in range(count)))
        os.close(self._writer)
        self._writer = -1

    def close(self) -> None:
        """Close the pipe."""
        for descriptor in {self.reader, self._writer} - {-1}:
            os.close(descriptor)


def taken(reader: int) -> Iterator[int]:
    """Yield the next number, as long as there are any; wait for the first one until they are filled in.

    A read of a pipe is atomic: no number is taken twice.
    """
    while number := os.read(reader, _WIDTH):
        yield int.from_bytes(number, "big")
