"""A terminal that a program writes to, and what a person would see on it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO

COLUMNS = 80
_PIECE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(\r|\n)|([^\x1b\r\n]+)")


@dataclass
class Seen:
    """What was sent to a terminal, as bytes; complete only once the writer has closed its end."""

    sent: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        """All characters, escape sequences included."""
        return self.sent.decode(errors="replace")

    @property
    def screens(self) -> list[list[str]]:
        """The lines that stood on the screen before each change of one that stood there already, and at the end."""
        lines, row, column, shown = [""], 0, 0, []
        for codes, command, control, text in _PIECE.findall(self.text):
            if control == "\r":
                column = 0
            elif control == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif command == "A":
                row = max(row - int(codes or 1), 0)
            elif command == "K":
                assert codes == "2", "only whole lines are erased"
                shown.append([*lines])
                lines[row] = ""
            elif text:
                line = lines[row].ljust(column)
                lines[row] = line[:column] + text + line[column + len(text) :]
                column += len(text)
        return [*shown, lines]

    @property
    def final(self) -> list[str]:
        """The lines that stay, without those at the end that are empty."""
        return "\n".join(line.rstrip() for line in self.screens[-1]).rstrip().splitlines()


@contextmanager
def open_terminal() -> Iterator[tuple[int, int, Seen]]:
    """Yield the two ends of a terminal of 80 columns, the person's and the program's, and what the program sends."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    seen = Seen()

    def read() -> None:
        try:
            while data := os.read(master, 4096):
                seen.sent += data
        except OSError:
            return  # the other end is closed

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield master, slave, seen
    finally:
        with suppress(OSError):
            os.close(slave)
        reader.join()
        os.close(master)


@contextmanager
def terminal() -> Iterator[tuple[TextIO, Seen]]:
    """Yield a stream on a terminal of 80 columns, and what is sent to it."""
    with open_terminal() as (_, slave, seen), os.fdopen(slave, "w") as stream:
        yield stream, seen
