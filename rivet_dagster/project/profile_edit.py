"""Adding an entry to a file of profiles, of which every other byte stays as it is.

The place is found in the tree of the YAML, and the entry is put there as one line of text. The result is read again,
and must be what was there and the entry, so that an alias, say, which stands for several profiles is not written to.
The content is replaced in one step: a failed write leaves the old file whole.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rivet_dagster.errors import RivetError
from rivet_dagster.file_replacement import replace_like
from rivet_dagster.project.yaml_text import YamlError, plain, read_yaml

_BY_HAND = "Write the entry into the file yourself."


def with_entry(text: str, file: str, profile: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text of ``file`` with an entry ``name`` in a section, ``catalogs`` or ``engines``, of a profile.

    Raises RVT-104 if the profile has an entry of that name, or is written so that none can be added.

    >>> print(with_entry("dev:\\n  catalogs:\\n    raw: {type: filesystem}  # files\\n", "p.yaml", "dev",
    ...     "catalogs", "lake", {"type": "filesystem", "path": "lake"}), end="")
    dev:
      catalogs:
        raw: {type: filesystem}  # files
        lake: {type: filesystem, path: lake}
    """
    before = plain(read_yaml(text))
    existing = before[profile].get(section)
    listed = isinstance(existing, list) or (existing is None and section == "engines")
    names = [each.get("name") for each in existing or ()] if listed else list(existing or ())
    if name in names:
        message = f"the profile '{profile}' has an entry '{name}' in `{section}` already"
        raise RivetError("RVT-104", message, file=file, remediation="Take another name, or change the file.")
    item = {"name": name, **entry} if listed else {name: dict(entry)}
    expected = {**before, profile: {**before[profile], section: _added(existing, item)}}
    new = _inserted(text, profile, section, item, listed)
    try:
        values = plain(read_yaml(new))
    except YamlError:
        values = None
    if values != expected:
        message = f"`{section}` of the profile '{profile}' is written so that no entry can be added to it"
        raise RivetError("RVT-104", message, file=file, remediation=_BY_HAND)
    return new


def _added(existing: Any, item: dict[str, Any]) -> Any:
    if isinstance(existing, list):
        return [*existing, item]
    return [item] if existing is None and "name" in item else {**(existing or {}), **item}


def _inserted(text: str, profile: str, section: str, item: dict[str, Any], listed: bool) -> str:
    whole = yaml.compose(text, Loader=yaml.SafeLoader)
    mapping = _value(whole, profile)
    value = _value(mapping, section)
    line = _flow(item) if listed else _flow(item)[1:-1]
    empty = value is not None and isinstance(value, yaml.ScalarNode)
    if value is None:
        entry = f"{section}: [{line}]" if listed else f"{section}: {{{line}}}"
        if mapping.flow_style or not mapping.value:
            return _in_flow(text, mapping, entry)
        return _below(text, _end(mapping), mapping.start_mark.column, entry)
    if empty:
        entry = f" [{line}]" if listed else f" {{{line}}}"
        at = value.end_mark.index
        return text[: value.start_mark.index].rstrip(" ") + entry + text[at:]
    if value.flow_style:
        return _in_flow(text, value, line)
    return _below(text, _end(value), value.start_mark.column, f"- {line}" if listed else line)


def _value(mapping: Any, key: str) -> Any:
    return next((value for name, value in mapping.value if name.value == key), None)


def _in_flow(text: str, node: Any, entry: str) -> str:
    """Return the text with an entry before the bracket that closes a collection."""
    at = node.end_mark.index - 1
    inner = text[node.start_mark.index + 1 : at]
    comma = ", " if inner.strip() and not inner.rstrip().endswith(",") else ""
    head = text[:at].rstrip() if not inner.rstrip(" ").endswith("\n") else text[:at]
    return f"{head}{comma}{entry}{text[at:]}"


def _below(text: str, end: int, indent: int, entry: str) -> str:
    """Return the text with an entry on a line of its own, below the line that ends behind ``end``."""
    newline = "\r\n" if "\r\n" in text else "\n"
    at_line_start = end > 0 and text[end - 1] == "\n"
    at = end if at_line_start else text.find("\n", end) + 1
    if at == 0:  # the last line of the file, which has no newline
        return f"{text}{newline}{' ' * indent}{entry}{newline}"
    return f"{text[:at]}{' ' * indent}{entry}{newline}{text[at:]}"


def _end(node: Any) -> int:
    """Return where the text of a node ends; the mark of a block stands behind the comments that follow it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    key, value = last if isinstance(node, yaml.MappingNode) else (None, last)
    end = _end(value)
    return max(end, key.end_mark.index + 1) if key is not None else end


def _flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    return yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf")
    ).rstrip()


_REMEDY = "Free space, or give this user the right to write in that folder; the file is as it was."


def replace_edited(path: Path, content: bytes) -> None:
    """Replace the content of an existing file, and keep its mode and, where possible, its owner.

    Of a symbolic link the file that it leads to is replaced. Raises RVT-108 if that cannot be written.
    """
    target = path.resolve()
    try:
        replace_like(target, content, target.with_name(f".{target.name}.{secrets.token_hex(4)}"), target.stat())
    except OSError as error:
        raise RivetError("RVT-108", f"cannot write {path}: {error.strerror}", remediation=_REMEDY) from error
