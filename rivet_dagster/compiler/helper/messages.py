"""Messages from one process to another, in a file: neither has to wait until the other one reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

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
