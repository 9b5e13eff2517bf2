"""Whether a process is still the one that was recorded: the system gives the number of a dead process to another."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessState:
    """When a process began, in the system's own form, and its command line."""

    began: str
    command: str


def process_state(pid: int) -> ProcessState | None:
    """Return the state of a process, None if there is none of that number, or it has ended.

    >>> import os
    >>> "python" in process_state(os.getpid()).command
    True
    """
    return _of_proc(pid) if (_PROC / "self" / "stat").exists() else _of_ps(pid)


def _of_proc(pid: int) -> ProcessState | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
        command = (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    # The name of the program stands in parentheses and may contain spaces; state and beginning are fields 3 and 22.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else ProcessState(f"{_boot()} {fields[19]}", command)


def _boot() -> str:
    return (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()


def _of_ps(pid: int) -> ProcessState | None:
    """Ask ``ps``, on systems without ``/proc``."""
    answer = subprocess.run(
        ["ps", "-ww", "-p", str(pid), "-o", "state=,lstart=,command="],
        capture_output=True, text=True, check=False, env={"LC_ALL": "C", "PATH": "/bin:/usr/bin"},
    )  # fmt: skip
    words = answer.stdout.split(maxsplit=6)
    if answer.returncode != 0 or len(words) < 7 or words[0].startswith("Z"):
        return None
    return ProcessState(" ".join(words[1:6]), words[6])
