"""The first compilation of a large project, in two processes.

Where there is no cache yet and a second processor, another process computes values of the cache for a fixed part of the
project: first the drafts of a part of the files, then the facts and the columns of a part of the queries, with all that
these read. It never changes the plan: a value that it does not return, since it fails, is killed, is stopped or is of
another version, is computed in this process.

It reads its orders on stdin and writes its answers to stdout: the length of a line of JSON, that line (the states of
files, and the size of what follows) and a part of a cache file. It ends with its stdin.
"""

from __future__ import annotations

import gc
import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rivet_dagster.cache import CompileCache, key_of
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import topological
from rivet_dagster.compiler.references import build_graph
from rivet_dagster.compiler.schemas import infer_columns
from rivet_dagster.model.joint import SINK, SOURCE, SQL, Joint
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.project import Project
from rivet_dagster.model.schema import Field, Introspection
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.project.cache_file import part, values_in
from rivet_dagster.project.known_files import Draft, KnownDrafts
from rivet_dagster.project.load import read_drafts
from rivet_dagster.project.templating import is_template

LEAST_FILES = 3_000
"""The number of joints' files from which a second process saves more time than its start takes."""

FILES, QUERIES = 0.4, 0.4
"""The parts of the files and of the queries that it reads: it begins later, and also infers columns."""

_PATIENCE = 60.0
"""The seconds for which more of an answer is awaited once it is needed."""

_LENGTH = 12
"""The digits of the length of an answer's line."""

_COMMAND = "from rivet_dagster.compiler.second_process import main; main()"
_WORD = re.compile(r"\w+")


@contextmanager
def second_process(root: Path, cache: CompileCache) -> Iterator[SecondProcess]:
    """Let a second process put values into ``cache`` while the block runs, if the project is large."""
    with ExitStack() as stack:
        yield SecondProcess(root, cache, stack)


class SecondProcess:
    """What a second process does for a compilation; it ends with ``stack`` at the latest."""

    def __init__(self, root: Path, cache: CompileCache, stack: ExitStack) -> None:
        self._root = root
        self._cache = cache
        self._stack = stack
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, paths: Sequence[str], known: KnownDrafts) -> list[Draft]:
        """Return the drafts of the files, in order."""
        if self._cache.known or len(paths) < LEAST_FILES or not _can_start():
            return read_drafts(paths, known)
        first = len(paths) - int(FILES * len(paths))
        self._start()
        self._send({"root": os.path.abspath(self._root), "files": paths[first:]})
        drafts = read_drafts(paths[:first], known)
        states, values = self._receive()
        known.read.update(states)
        self._cache.receive(values)
        return [*drafts, *read_drafts(paths[first:], known)]

    def share_queries(self, project: Project, introspection: Introspection) -> None:
        """Have the facts and columns of some queries computed until one of them is asked for."""
        if self._process is not None:
            share = share_of(project.joints)
            self._send(plain_share(share, introspection))
            keys = frozenset(key_of("query", joint.sql) for joint in share if joint.sql is not None)
            self._cache.await_values(keys, lambda: self._receive()[1])

    def _start(self) -> None:
        # -P: nothing is imported from the working directory
        command, pipe = [sys.executable, "-P", "-c", _COMMAND], subprocess.PIPE
        with suppress(OSError):  # no room for processes
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
            self._stack.callback(self._end)

    def _send(self, order: Mapping[str, Any]) -> None:
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.write(json.dumps(order).encode() + b"\n")
                self._process.stdin.flush()
            except OSError:  # it has ended
                self._end()

    def _receive(self) -> tuple[dict[str, list[Any]], dict[str, str]]:
        """Wait for the answer to the last order and return it; end a process that gives none that can be used."""
        if self._process is not None and self._process.stdout is not None:
            with suppress(ValueError):
                states, size = json.loads(_read_line(self._process.stdout))
                values = values_in(_read(self._process.stdout, size))
                if values:
                    return states, values
            self._end()
        return {}, {}

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _read_line(pipe: IO[bytes]) -> bytes:
    return _read(pipe, int(_read(pipe, _LENGTH)))


def _read(pipe: IO[bytes], size: int) -> bytes:
    """Return bytes of another process. Raises ValueError if it ends before, or writes nothing for a long time."""
    content = bytearray()
    while len(content) < size:
        is_ready, _, _ = select.select([pipe], [], [], _PATIENCE)
        some = os.read(pipe.fileno(), size - len(content)) if is_ready else b""
        if not some:
            raise ValueError("nothing has been written")
        content += some
    return bytes(content)


def _can_start() -> bool:
    """Return whether processes can be started, and there are two processors for this one."""
    return os.name == "posix" and bool(sys.executable) and _processors() >= 2


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_of(joints: Iterable[Joint]) -> list[Joint]:
    """Return the first joints in topological order, as far as the words of their queries tell it.

    A word that only looks like a joint's name costs time and nothing else. Templates, published histories and what
    follows them are left out, as are sinks: their columns are only known later.
    """
    named = {joint.name: joint for joint in joints}
    edges = {name: _reads(joint, named) for name, joint in named.items()}
    queries = QUERIES * sum(joint.type == SQL for joint in named.values())
    chosen: dict[str, Joint] = {}
    for name in topological(edges):
        joint = named[name]
        template = joint.sql is not None and is_template(joint.sql)
        history = joint.publishes and joint.write_strategy.keeps_history
        if template or history or joint.type == SINK or not edges[name] <= chosen.keys():
            continue
        queries -= joint.type == SQL
        if queries < 0:
            break
        chosen[name] = joint
    return list(chosen.values())


def _reads(joint: Joint, named: Mapping[str, Joint]) -> set[str]:
    if joint.upstream is not None:
        return {*joint.upstream} & named.keys()
    words = _WORD.findall(joint.sql.lower()) if joint.type == SQL and joint.sql is not None else ()
    return ({*words} & named.keys()) - {joint.name}


def plain_share(share: Sequence[Joint], introspection: Introspection) -> dict[str, Any]:
    """Return what determines the columns of the joints, as plain data."""
    sources = [joint.name for joint in share if joint.type == SOURCE and joint.name in introspection.tables]
    tables = {name: [(field.name, field.type) for field in introspection.tables[name]] for name in sources}
    return {"joints": [_plain(joint) for joint in share], "tables": tables}


def _plain(joint: Joint) -> dict[str, Any]:
    values = {key: getattr(joint, key) for key in ("name", "type", "sql", "columns", "filter", "limit", "upstream")}
    ddl = joint.options.get("schema")
    options = {"schema": ddl} if isinstance(ddl, str) else {}
    return {key: value for key, value in values.items() if value is not None} | {"options": options}


def read_share(plain: Mapping[str, Any]) -> tuple[tuple[Joint, ...], Introspection]:
    """Return the joints and the columns of tables that ``plain_share`` has written."""
    joints = tuple(Joint.of_converted(values, (), Origin()) for values in plain["joints"])
    tables = {name: tuple(Field(*field) for field in fields) for name, fields in plain["tables"].items()}
    return joints, Introspection(tables)


def main() -> None:
    """Carry out the orders on stdin, each of them one line, and write the answers to stdout."""
    gc.disable()
    cache = CompileCache()
    for line in sys.stdin.buffer:
        order, before = json.loads(line), cache.added
        states: Mapping[str, list[Any]] = {}
        if "files" in order:
            drafts = KnownDrafts(Path(order["root"]), cache)
            read_drafts(order["files"], drafts)
            states = drafts.read
        else:
            _analyze(*read_share(order), cache)
        content = part({key: value for key, value in cache.added.items() if key not in before})
        head = json.dumps([states, len(content)]).encode()
        sys.stdout.buffer.write(b"%0*d%b%b" % (_LENGTH, len(head), head, content))
        sys.stdout.buffer.flush()


def _analyze(joints: tuple[Joint, ...], introspection: Introspection, cache: CompileCache) -> None:
    """Put the facts of the joints' queries and their columns into the cache; errors are left to the compiler."""
    diagnostics = Diagnostics()
    graph = build_graph(Project(Profile("", (), (), None), joints), diagnostics, cache)
    if not diagnostics.errors:
        infer_columns(graph, diagnostics, cache, introspection)
