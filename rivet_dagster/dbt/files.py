"""The files of a dbt project: found as dbt finds them, without those that ``.dbtignore`` names, and read as dbt does.

YAML is read by PyYAML: YAML 1.1 with merge keys, and the lines of the keys of every mapping.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pathspec import PathSpec

from rivet_dagster.dbt.template import DbtTemplate, DbtTemplateError, read_template
from rivet_dagster.project.text_file import TextError, read_text
from rivet_dagster.project.yaml_text import Located

_HIDDEN = (".", "#", "~")

IGNORE_FILE = ".dbtignore"


@dataclass(frozen=True)
class PackageFiles:
    """The files of the project in ``folder`` of ``root``, but for those that ``is_ignored`` says of their path."""

    root: Path
    folder: str
    is_ignored: Callable[[str], bool]

    def below(self, paths: Iterable[str], extensions: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Yield the files with some extensions below ``paths`` of the folder, in order, without hidden ones.

        Each is its path from ``root``, and its path below the one of ``paths`` that it is in. No file is found twice.
        """
        seen: set[str] = set()
        for path in paths:
            top = os.path.join(self.root, self.folder, path)
            for current, folders, names in os.walk(top):
                folders.sort()
                for name in sorted(names):
                    if not name.lower().endswith(extensions) or name.startswith(_HIDDEN):
                        continue
                    file = os.path.relpath(os.path.join(current, name), self.root)
                    below = os.path.relpath(os.path.join(current, name), top)
                    if file not in seen and not self.is_ignored(os.path.normpath(os.path.join(path, below))):
                        seen.add(file)
                        yield file, below

    def links(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the links to folders below ``paths``, which dbt does not follow, as paths from ``root``."""
        for path in paths:
            for current, folders, _ in os.walk(os.path.join(self.root, self.folder, path)):
                linked = [os.path.join(current, name) for name in sorted(folders)]
                yield from (os.path.relpath(each, self.root) for each in linked if os.path.islink(each))


def template_of(root: Path, file: str) -> tuple[DbtTemplate | None, tuple[str, int] | None]:
    """Return the template in a file, or what is wrong with it and the line."""
    try:
        return read_template(read_file(root / file)), None
    except (TextError, DbtTemplateError) as error:
        return None, (error.message, error.line or 1)


def read_ignored(folder: Path) -> Callable[[str], bool]:
    """Return whether dbt does not read a file, given by its path from ``folder``. Raise TextError."""
    path = folder / IGNORE_FILE
    return ignore_matching(read_file(path)) if path.exists() else ignore_matching("")


def ignore_matching(text: str) -> Callable[[str], bool]:
    """Return whether patterns mean a path: the last one that matches decides. Raise TextError.

    >>> is_ignored = ignore_matching("*.sql  # no comment\\n*.csv\\n/models/old/\\n!models/old/**/new.sql")
    >>> [is_ignored(path) for path in ("seeds/a.csv", "a.sql", "models/old/x/a.sql", "models/old/x/new.sql")]
    [True, False, True, False]
    """
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        try:
            _patterns([line])
        except ValueError as error:
            raise TextError(str(error), number) from error
    return _patterns(lines).match_file


def _patterns(lines: list[str]) -> PathSpec[Any]:
    with warnings.catch_warnings():
        # The name that dbt uses; since 1.0 pathspec has others, of which older ones know nothing.
        warnings.simplefilter("ignore", DeprecationWarning)
        return PathSpec.from_lines("gitwildmatch", lines)


_DEEPEST = 100
_MOST_ALIASED = 100_000
_KINDS = {
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "timestamp": "a date",
    "binary": "base 64",
}
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml_file(path: Path) -> Located:
    """Return the mapping in a file, an empty one where there is nothing. Raise TextError."""
    return read_mapping(read_file(path))


def read_mapping(text: str) -> Located:
    """Return the mapping in a text. Raise TextError.

    >>> value = read_mapping("version: 2\\nmodels:\\n  - name: a\\n    quoted: yes")
    >>> value["models"], value["models"][0].lines
    ([{'name': 'a', 'quoted': True}], {'name': 3, 'quoted': 4})
    """
    try:
        _check_size(yaml.parse(text, Loader=_Base))
        value = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"the YAML cannot be read: {error.problem or error.context}"
        raise TextError(message, mark.line + 1 if mark is not None else 1) from None
    except (yaml.YAMLError, RecursionError) as error:
        line = text.count("\n", 0, getattr(error, "position", None) or 0) + 1
        raise TextError("the YAML cannot be read: it holds a character that YAML does not have", line) from None
    if value is None:
        return Located(1)
    if not isinstance(value, Located):
        raise TextError("the file must hold a mapping", 1)
    return value


def _check_size(events: Any) -> None:
    """Raise TextError for what is nested too deeply, and for aliases of aliases that grow without end."""
    sizes: dict[str, int] = {}
    within: list[tuple[str | None, int]] = []
    nodes = aliased = 0
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            if any(event.anchor == anchor for anchor, _ in within):
                raise TextError(f"the alias *{event.anchor} stands within its own value", line)
            aliased += sizes.get(str(event.anchor), 0)
            nodes += sizes.get(str(event.anchor), 0)
            if aliased > _MOST_ALIASED:
                raise TextError(f"aliases repeat more than {_MOST_ALIASED} values", line)
        elif isinstance(event, yaml.NodeEvent):
            nodes += 1
            if isinstance(event, yaml.CollectionStartEvent):
                within.append((event.anchor, nodes - 1))
                if len(within) > _DEEPEST:
                    raise TextError(f"it is nested more than {_DEEPEST} deep", line)
            elif event.anchor is not None:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = within.pop()
            if anchor is not None:
                sizes[anchor] = nodes - before


class _Loader(_Base):  # type: ignore[misc] # PyYAML's stubs know one base alone
    """The safe loader, with mappings that know their lines."""

    def located(self, node: yaml.Node) -> Located:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(
                None, None, "it is tagged as a mapping, but is none", node.start_mark
            )
        value = Located(line)
        self.flatten_mapping(node)
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                key = str(key).lower() if isinstance(key, bool) else str(key)
            value[key] = self.construct_object(value_node, deep=True)
            value.lines[key] = key_node.start_mark.line + 1
            value.starts[key] = value_node.start_mark.line + 1
        return value

    def known(self, node: yaml.Node) -> Any:
        kind = node.tag.rpartition(":")[2]
        try:
            return getattr(_Base, f"construct_yaml_{kind}")(self, node)
        except (ValueError, ArithmeticError, AttributeError, LookupError):  # a date of a month 13, say
            message = f"a value cannot be read as {_KINDS[kind]}"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark) from None


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.located)
for _kind in _KINDS:
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.known)


def line_of(value: Any, key: str, otherwise: int = 1) -> int:
    """Return the line of a key of a mapping that was read."""
    return value.lines.get(key, value.line) if isinstance(value, Located) else otherwise


def read_file(path: Path) -> str:
    """Return a file's text. Raise TextError, also for a pipe or a device, of which nobody knows when it ends."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return read_text(path)
    if not stat.S_ISREG(mode):
        raise TextError("it is no ordinary file", 1)
    return read_text(path)
