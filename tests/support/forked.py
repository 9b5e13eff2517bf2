"""Real processes of a real executable that cost next to no start.

One process imports what the commands import; each call is a fork of it, which runs the installed script, ends as
Python ends, and may have its stdout closed or be interrupted at an exact moment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = Path(sys.executable).with_name("rivet-dagster")

READ, CLOSED, UNREAD = "read", "closed", "unread"
"""What stdout is: a pipe that is read, closed (``>&-``), or a pipe that nobody reads (``| head -0``)."""

_PROGRAM = r"""
import importlib, json, os, runpy, signal, sys, tempfile

signal.signal(signal.SIGINT, signal.default_int_handler)
calls, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)

def interrupt_at(moment):
    def interrupt():
        if not done:
            done.append(moment)
            signal.raise_signal(signal.SIGINT)
    done = []
    kind, _, name = moment.partition(" ")
    if kind == "import":  # of a module that is not imported yet
        class Finder:
            def find_spec(self, module, path=None, target=None):
                if module.startswith(name):
                    interrupt()
        sys.meta_path.insert(0, Finder())
    else:  # of a file that is opened
        def hook(event, arguments):
            if event == "open" and str(arguments[0]).endswith(name):
                interrupt()
        sys.addaudithook(hook)

def child(call, out, err):
    os.dup2(err, 2)
    if call["stdout"] == "read":
        os.dup2(out, 1)
    else:
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 1)
        os.close(writing)
        if call["stdout"] == "closed":
            os.close(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if call["stdout"] == "closed":
        sys.stdout = sys.__stdout__ = None
    os.chdir(call["cwd"])
    sys.argv = [call["script"], *call["arguments"]]
    if call["moment"]:
        interrupt_at(call["moment"])
    runpy.run_path(call["script"], run_name="__main__")

for line in calls:
    call = json.loads(line)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            child(call, out.fileno(), err.fileno())
            raise SystemExit(99)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    print(json.dumps([code, *texts]), file=answers, flush=True)
"""


@dataclass(frozen=True)
class Ended:
    """The exit code of a process, and what it has written."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Executable:
    """The executable ``rivet-dagster``, or another one; a call is a process of its own."""

    process: subprocess.Popen[str]
    script: Path

    def __call__(self, cwd: Path, *arguments: str, stdout: str = READ, interrupted: str = "") -> Ended:
        """Run a command in a folder, with a SIGINT at the ``open NAME`` of a file or ``import NAME`` of a module."""
        call: Mapping[str, Any] = {
            "script": str(self.script),
            "arguments": arguments,
            "cwd": str(cwd),
            "stdout": stdout,
            "moment": interrupted,
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(call), file=self.process.stdin, flush=True)
        return Ended(*json.loads(self.process.stdout.readline()))


@contextmanager
def executable(environ: Mapping[str, str], imported: Sequence[str], script: Path = SCRIPT) -> Iterator[Executable]:
    """Start the process that has the modules ``imported`` already, and runs a ``script`` of Python."""
    command = [sys.executable, "-c", _PROGRAM, json.dumps(list(imported))]
    with subprocess.Popen(
        command, env=dict(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Executable(process, script)
        assert process.stdin is not None
        process.stdin.close()
