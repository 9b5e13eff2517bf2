"""YAML as dbt reads it, by PyYAML: YAML 1.1 with merge keys, and the lines of the keys of every mapping."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import yaml

from rivet_dagster.project.text_file import TextError, read_text
from rivet_dagster.project.yaml_text import Located

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
