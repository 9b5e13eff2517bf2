"""Fields of partition specs and sort orders, written as in Spark's DDL: ``days(at)``, ``id DESC NULLS FIRST``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rivet_dagster.errors import nearest

_NAMES = {
    "year": "year years",
    "month": "month months",
    "day": "day days date",
    "hour": "hour hours date_hour",
    "bucket": "bucket",
    "truncate": "truncate",
    "identity": "identity",
}
_TRANSFORMS = {name: transform for transform, names in _NAMES.items() for name in names.split()}
_TIMES = ("year", "month", "day", "hour")
_SIZED = {"bucket": "number of buckets", "truncate": "width"}

_PART = r"(?:`(?:[^`]|``)+`|\w+)"
_COLUMN = rf"{_PART}(?:\s*\.\s*{_PART})*"
_EXPRESSION = rf"(?P<column>{_COLUMN})|(?P<transform>\w+)\s*\((?P<arguments>[^()]*|[^()]*`[^`]*`[^()]*)\)"
_FIELD = re.compile(rf"\s*(?:{_EXPRESSION})\s*")
_SORTED = re.compile(
    rf"\s*(?:{_EXPRESSION})(?:\s+(?P<direction>ASC|DESC))?(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?\s*", re.IGNORECASE
)
_ARGUMENTS = re.compile(rf"\s*(?:(?P<first>-?\d+)\s*,\s*)?(?P<column>{_COLUMN})(?:\s*,\s*(?P<last>-?\d+))?\s*")


@dataclass(frozen=True)
class PartitionText:
    """A column, given by the path of its name, and its transform with the size of a bucket or truncate.

    ``transform`` is one of identity, year, month, day, hour, bucket and truncate.
    """

    column: tuple[str, ...]
    transform: str = "identity"
    size: int | None = None

    @property
    def kind(self) -> tuple[tuple[str, ...], str]:
        """The column and its kind of transform, which no two fields of a table can share."""
        return tuple(part.lower() for part in self.column), "time" if self.transform in _TIMES else self.transform

    def __str__(self) -> str:
        column = ".".join(self.column)
        if self.transform == "identity":
            return column
        return f"{self.transform}({'' if self.size is None else f'{self.size}, '}{column})"


@dataclass(frozen=True)
class SortText:
    """A field of a sort order."""

    field: PartitionText
    descending: bool = False
    nulls_last: bool = False


def partition_text(text: str) -> PartitionText:
    """Return a field of a partition spec from its text. Raises ValueError.

    >>> partition_text("bucket(4, place.`zip code`)")
    PartitionText(column=('place', 'zip code'), transform='bucket', size=4)
    """
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError("is no column like `day` and no transform like `days(at)`")
    return _expression(match)


def sort_text(text: str) -> SortText:
    """Return a field of a sort order from its text; NULLs are first if ascending, as in Spark. Raises ValueError."""
    match = _SORTED.fullmatch(text)
    if match is None:
        raise ValueError(
            "is no column like `day` and no transform like `days(at)`, with ASC or DESC, NULLS FIRST or LAST"
        )
    descending = (match["direction"] or "").upper() == "DESC"
    nulls_last = match["nulls"].upper() == "LAST" if match["nulls"] else descending
    return SortText(_expression(match), descending, nulls_last)


def _expression(match: re.Match[str]) -> PartitionText:
    if match["column"]:
        return PartitionText(_parts(match["column"]))
    transform = _TRANSFORMS.get(match["transform"].lower())
    if transform is None:
        raise ValueError(f"has an unknown transform '{match['transform']}'{nearest(match['transform'], _TRANSFORMS)}")
    arguments = _ARGUMENTS.fullmatch(match["arguments"])
    sizes = [size for size in (arguments["first"], arguments["last"]) if size] if arguments else []
    if arguments is None or len(sizes) != (transform in _SIZED):
        shape = f"{transform}(4, column)" if transform in _SIZED else f"{match['transform']}(column)"
        raise ValueError(f"must be written like {shape}")
    if sizes and not 1 <= int(sizes[0]) < 2**31:
        raise ValueError(f"has {sizes[0]} as its {_SIZED[transform]}, which must be from 1 to {2**31 - 1}")
    return PartitionText(_parts(arguments["column"]), transform, int(sizes[0]) if sizes else None)


def _parts(column: str) -> tuple[str, ...]:
    parts = re.findall(_PART, column)
    return tuple(part[1:-1].replace("``", "`") if part.startswith("`") else part for part in parts)
