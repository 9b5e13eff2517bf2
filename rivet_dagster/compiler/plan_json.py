"""Serialization of frozen dataclasses to JSON and back, in linear time."""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from json.encoder import encode_basestring
from operator import attrgetter, itemgetter
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Reader = Callable[[Any], Any]


def write(value: Any) -> str:
    r"""Return the text of ``json.dumps(dataclasses.asdict(value), indent=2, ensure_ascii=False)``.

    >>> from rivet_dagster.model.schema import Field
    >>> write((Field("id"),))
    '[\n  {\n    "name": "id",\n    "type": null\n  }\n]'
    """
    return _text(value, "\n")


def write_parts(value: Any) -> Iterator[str]:
    """Yield the text that ``write`` returns for a dataclass, an item of its fields' tuples at a time.

    A plan of ten thousand joints has fifty million characters, of which the whole text and the texts of its lists would
    each be a copy.
    """
    before = "{\n  "
    for item in fields(value):
        yield f"{before}{json.dumps(item.name)}: "
        of_field = getattr(value, item.name)
        if isinstance(of_field, tuple) and of_field:
            yield f"[\n    {_text(of_field[0], _OF_ITEMS)}"
            for each in of_field[1:]:
                yield f",\n    {_text(each, _OF_ITEMS)}"
            yield "\n  ]"
        else:
            yield _text(of_field, "\n  ")
        before = ",\n  "
    yield "\n}"


_OF_ITEMS = "\n    "

_Writer = Callable[[Any, str], str]
"""Returns the text of a value; the second argument is a line break with the indentation of its depth."""


def _text(value: Any, line: str) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    kind: Any = type(value)
    return _writer(kind)(value, line)


@cache
def _writer(kind: type) -> _Writer:
    """Return the writer of values of a type."""
    if kind is type(None):
        return lambda value, line: "null"
    if is_dataclass(kind):
        return _dataclass_writer(kind)
    if issubclass(kind, dict):
        return _write_mapping
    return _write_items if issubclass(kind, Sequence) else lambda value, line: json.dumps(value)


def _write_mapping(value: Mapping[Any, Any], line: str) -> str:
    if not value:
        return "{}"
    inner = line + "  "
    items = [f"{_key(key)}: {_text(item, inner)}" for key, item in value.items()]
    return f"{{{inner}{f',{inner}'.join(items)}{line}}}"


def _key(key: Any) -> str:
    return encode_basestring(key) if isinstance(key, str) else f'"{json.dumps(key)}"'


def _write_items(value: Sequence[Any], line: str) -> str:
    if not value:
        return "[]"
    inner = line + "  "
    return f"[{inner}{f',{inner}'.join([_text(item, inner) for item in value])}{line}]"


def _dataclass_writer(kind: type) -> _Writer:
    names = [item.name for item in fields(kind)]
    values_of: Callable[[Any], Any] = attrgetter(*names)

    @cache
    def frame(line: str) -> str:
        """Return the text with placeholders for the fields."""
        items = f",{line}  ".join([f"{json.dumps(name)}: %s" for name in names])
        return f"{{{line}  {items}{line}}}"

    def write_dataclass(value: Any, line: str) -> str:
        inner = line + "  "
        values = values_of(value) if len(names) > 1 else (values_of(value),)
        return frame(line) % tuple([_text(item, inner) for item in values])

    return write_dataclass


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
    readers = [(place, name, of) for place, name in enumerate(names) if (of := _reader(hints[name])) is not _plain]

    def build(data: Any) -> Any:
        if data is None:
            return None
        values = {name: data[name] for name in names if name in data}
        for _, name, of in readers:
            if name in values:
                values[name] = of(values[name])
        return kind(**values)

    if len(names) < 2 or any(item.kw_only for item in fields(kind)):
        return build
    values_of = itemgetter(*names)

    def build_in_order(data: Any) -> Any:
        """Do the same by position, which takes half the time, where no value is missing."""
        if data is None:
            return None
        try:
            values = list(values_of(data))
        except KeyError:
            return build(data)
        for place, _, of in readers:
            values[place] = of(values[place])
        return kind(*values)

    return build_in_order
