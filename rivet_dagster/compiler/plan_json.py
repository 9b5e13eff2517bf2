"""Serialization of frozen dataclasses to JSON and back, in linear time."""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Reader = Callable[[Any], Any]


def write(value: Any) -> str:
    r"""Return the text of ``json.dumps(dataclasses.asdict(value), indent=2, ensure_ascii=False)``.

    >>> from rivet_dagster.model.schema import Field
    >>> write((Field("id"),))
    '[\n  {\n    "name": "id",\n    "type": null\n  }\n]'
    """
    return _text(value, "\n")


def _text(value: Any, line: str) -> str:
    """Return the text of ``value``; ``line`` is a line break with the indentation of its depth."""
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None:
        return "null"
    inner = line + "  "
    if isinstance(value, tuple):
        return f"[{inner}{f',{inner}'.join([_text(item, inner) for item in value])}{line}]" if value else "[]"
    if is_dataclass(value):
        kind: Any = type(value)
        frame, values_of = _frame(kind, line)
        return frame % tuple([_text(item, inner) for item in values_of(value)])
    if isinstance(value, Sequence):
        return _text(tuple(value), line)
    # JSON text has no line breaks inside strings, so each one begins a line.
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", line) if value != {} else "{}"


@cache
def _frame(kind: type, line: str) -> tuple[str, Callable[[Any], Any]]:
    """Return the text of a dataclass with placeholders for its fields, and the getter of their values."""
    names = [item.name for item in fields(kind)]
    items = f",{line}  ".join([f"{json.dumps(name)}: %s" for name in names])
    values_of: Callable[[Any], Any] = attrgetter(*names)
    return f"{{{line}  {items}{line}}}", values_of if len(names) > 1 else lambda value: (values_of(value),)


def read(kind: Any, data: Any) -> Any:
    """Return parsed JSON as a value of the annotated type ``kind``; None stays None.

    >>> from rivet_dagster.model.schema import Field
    >>> read(tuple[Field, ...], [{"name": "id", "type": None}])
    (Field(name='id', type=None),)
    """
    return _reader(kind)(data)


def fingerprint(kind: type) -> str:
    """Return a hash of a dataclass and those that its fields hold: their names, and the names and types of fields."""
    shapes: dict[str, Any] = {}
    _add_shape(kind, shapes)
    return hashlib.sha256(repr(sorted(shapes.items())).encode()).hexdigest()[:16]


def _add_shape(kind: Any, shapes: dict[str, Any]) -> None:
    for argument in get_args(kind):
        _add_shape(argument, shapes)
    if not isinstance(kind, type) or not is_dataclass(kind):
        return
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name not in shapes:
        hints = get_type_hints(kind)
        shapes[name] = [(item.name, str(item.type)) for item in fields(kind)]
        for item in fields(kind):
            _add_shape(hints[item.name], shapes)


@cache
def _reader(kind: Any) -> Reader:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        kinds = [a for a in args if a is not type(None)]
        return _reader(kinds[0]) if len(kinds) == 1 or not all(map(is_dataclass, kinds)) else _union_reader(kinds)
    if origin is Sequence or (origin is tuple and args[-1] is Ellipsis):
        item = _reader(args[0])
        return lambda data: None if data is None else tuple([item(element) for element in data])
    if origin is tuple:
        items = [_reader(arg) for arg in args]
        return lambda data: None if data is None else tuple(r(d) for r, d in zip(items, data, strict=True))
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass_reader(kind)
    return _plain


def _plain(data: Any) -> Any:
    return data


def _union_reader(kinds: list[Any]) -> Reader:
    """Return a reader of several dataclasses, distinguished by a Literal field that each of them has."""
    hints = [get_type_hints(kind) for kind in kinds]
    tag = next(item.name for item in fields(kinds[0]) if get_origin(hints[0][item.name]) is Literal)
    readers = {get_args(hint[tag])[0]: _reader(kind) for kind, hint in zip(kinds, hints, strict=True)}
    return lambda data: None if data is None else readers[data[tag]](data)


def _dataclass_reader(kind: type) -> Reader:
    hints = get_type_hints(kind)
    names = [item.name for item in fields(kind)]
    readers = [(name, reader) for name in names if (reader := _reader(hints[name])) is not _plain]

    def build(data: Any) -> Any:
        if data is None:
            return None
        values = {name: data[name] for name in names if name in data}
        for name, of in readers:
            if name in values:
                values[name] = of(values[name])
        return kind(**values)

    return build
