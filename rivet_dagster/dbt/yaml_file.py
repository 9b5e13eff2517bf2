"""YAML as dbt reads it, by PyYAML: YAML 1.1 with merge keys, and the lines of the keys of every mapping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from rivet_dagster.project.text_file import TextError, read_text
from rivet_dagster.project.yaml_text import Located

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml_file(path: Path) -> Located:
    """Return the mapping in a file, an empty one where there is nothing. Raise TextError."""
    return read_mapping(read_text(path))


def read_mapping(text: str) -> Located:
    """Return the mapping in a text. Raise TextError.

    >>> value = read_mapping("version: 2\\nmodels:\\n  - name: a\\n    quoted: yes")
    >>> value["models"], value["models"][0].lines
    ([{'name': 'a', 'quoted': True}], {'name': 3, 'quoted': 4})
    """
    try:
        value = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"the YAML cannot be read: {error.problem or error.context}"
        raise TextError(message, mark.line + 1 if mark is not None else 1) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date of a month 13, say
        raise TextError(f"the YAML cannot be read: {error}", 1) from None
    if value is None:
        return Located(1)
    if not isinstance(value, Located):
        raise TextError("the file must hold a mapping", 1)
    return value


class _Loader(_Base):  # type: ignore[misc] # PyYAML's stubs know one base alone
    """The safe loader, with mappings that know their lines."""

    def located(self, node: yaml.MappingNode) -> Located:
        line = node.start_mark.line + 1
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


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.located)


def line_of(value: Any, key: str, otherwise: int = 1) -> int:
    """Return the line of a key of a mapping that was read."""
    return value.lines.get(key, value.line) if isinstance(value, Located) else otherwise
