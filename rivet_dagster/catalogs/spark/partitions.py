"""The partitions of a version of a Hive table that is PARTITIONED BY, and what one switch of the metastore changes.

A partition is told by its values as texts, as Hive's metastore keeps them: None stands for NULL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

Values = tuple[str | None, ...]

NULL = "__HIVE_DEFAULT_PARTITION__"
"""The text that stands for NULL, and for an empty text, in the metastore."""

TYPES = ("string", "tinyint", "smallint", "int", "bigint", "date", "boolean", "timestamp")
"""The types of partition columns whose values have one text each, by which a row finds its partition."""

_NUMBER = re.compile(r"0|-?[1-9]\d*")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:\.(?=\d{0,5}[1-9]$)\d{1,6})?")


def is_text_of(type_: str, text: str | None) -> bool:
    """Return whether Spark writes a value of a partition column as this text; Hive takes other texts for it, too.

    >>> is_text_of("int", "7"), is_text_of("int", "07"), is_text_of("date", "2024-02-30"), is_text_of("string", "07")
    (True, False, False, True)
    >>> is_text_of("timestamp", "2024-01-31 10:00:00.5"), is_text_of("timestamp", "2024-01-31 10:00:00.50")
    (True, False)
    """
    if text is None:
        return True
    match type_:
        case "string":
            return text not in ("", NULL)
        case "boolean":
            return text in ("true", "false")
        case "date":
            return _DATE.fullmatch(text) is not None and _parses(date.fromisoformat, text)
        case "timestamp":
            return _TIMESTAMP.fullmatch(text) is not None and _parses(datetime.fromisoformat, text[:19])
        case "tinyint" | "smallint" | "int" | "bigint":
            return _NUMBER.fullmatch(text) is not None
    return False


def _parses(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Partition:
    """A partition of a version: the folder that is its location, and the names of the files there."""

    folder: Path
    files: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Witness:
    """The partition whose location tells whether a switch has happened, with its locations around the switch.

    A partition that is new has None before it, one that vanishes None after it.
    """

    values: Values
    before: Path | None
    after: Path | None

    def saw_switch(self, location: Path | None) -> bool:
        """Return whether the switch has happened, by the location of the partition now; None if it does not exist.

        >>> vanishing = Witness(("a",), Path("/old"), None)
        >>> vanishing.saw_switch(Path("/old")), vanishing.saw_switch(Path("/empty")), vanishing.saw_switch(None)
        (False, True, True)
        >>> new = Witness(("a",), None, Path("/new"))
        >>> new.saw_switch(None), new.saw_switch(Path("/empty")), new.saw_switch(Path("/new"))
        (False, False, True)
        """
        return location == self.after if self.after is not None else location != self.before


@dataclass(frozen=True)
class VersionPartitions:
    """The partitions of a version by their values, and the witness of the switch to it, None if that changes none."""

    columns: tuple[str, ...]
    partitions: Mapping[Values, Partition] = field(default_factory=dict)
    witness: Witness | None = None

    @property
    def partition_of(self) -> dict[str, Values]:
        """The partition of each file, by its name."""
        return {name: values for values, partition in self.partitions.items() for name in partition.files}

    def to_json(self) -> str:
        """Return the content of the file beside the version."""
        stored = [[list(values), str(each.folder), sorted(each.files)] for values, each in self.partitions.items()]
        witness = self.witness
        told = None if witness is None else [list(witness.values), *map(_text, (witness.before, witness.after))]
        return json.dumps({"columns": self.columns, "partitions": stored, "witness": told})

    @classmethod
    def from_json(cls, text: str) -> VersionPartitions:
        """Return what ``to_json`` has written.

        >>> partitions = VersionPartitions(("day",), {(None,): Partition(Path("/t/0"), frozenset({"a.parquet"}))})
        >>> VersionPartitions.from_json(partitions.to_json()) == partitions
        True
        """
        content = json.loads(text)
        partitions = {
            tuple(values): Partition(Path(folder), frozenset(files)) for values, folder, files in content["partitions"]
        }
        told = content["witness"]
        witness = None if told is None else Witness(tuple(told[0]), *map(_path, told[1:]))
        return cls(tuple(content["columns"]), partitions, witness)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


@dataclass(frozen=True)
class Switch:
    """The changes by which a table gets the partitions of another version, and these.

    ``added`` are new, ``moved`` get another location, and ``emptied`` have no rows any more. Others stay as they are.
    """

    after: VersionPartitions
    added: tuple[Values, ...] = ()
    moved: tuple[Values, ...] = ()
    emptied: tuple[Values, ...] = ()

    @property
    def folders(self) -> dict[Values, Partition]:
        """The partitions whose folders are to be made."""
        return {values: self.after.partitions[values] for values in (*self.added, *self.moved)}

    def keep_emptied(self, folder: Path) -> Switch:
        """Return the switch that moves the partitions without rows, too, to folders in ``folder``.

        >>> old = VersionPartitions(("day",), {("1",): Partition(Path("/there"))})
        >>> plan_switch(old, {}, Path("/v1")).keep_emptied(Path("/v1")).after.partitions
        {('1',): Partition(folder=PosixPath('/v1/empty-0'), files=frozenset())}
        """
        kept = {values: Partition(folder / f"empty-{number}") for number, values in enumerate(self.emptied)}
        after, witness = self.after, self.after.witness
        if witness is not None and witness.values in kept:
            witness = replace(witness, after=kept[witness.values].folder)
        after = replace(after, partitions={**after.partitions, **kept}, witness=witness)
        return replace(self, after=after, moved=(*self.moved, *self.emptied), emptied=())


def plan_switch(before: VersionPartitions, files: Mapping[str, Values], folder: Path) -> Switch:
    """Return the switch from the partitions ``before`` to those of a version, told by the partition of each file.

    Folders are made in ``folder``; a partition with the same files keeps its own.

    >>> old = VersionPartitions(("day",), {("1",): Partition(Path("/v1/0"), frozenset({"a"})),
    ...     ("2",): Partition(Path("/v1/1"), frozenset({"b"})), ("3",): Partition(Path("/v1/2"), frozenset({"c"}))})
    >>> switch = plan_switch(old, {"a": ("1",), "b": ("2",), "d": ("2",), "e": (None,)}, Path("/v2"))
    >>> switch.added, switch.moved, switch.emptied
    (((None,),), (('2',),), (('3',),))
    >>> switch.after.partitions[("1",)].folder, switch.after.partitions[("2",)].folder, switch.after.witness
    (PosixPath('/v1/0'), PosixPath('/v2/2'), Witness(values=('2',), before=PosixPath('/v1/1'), after=...))
    """
    names: dict[Values, set[str]] = {}
    for name, values in files.items():
        names.setdefault(values, set()).add(name)
    after = {
        values: _with_files(before.partitions.get(values), frozenset(names[values]), folder / str(number))
        for number, values in enumerate(sorted(names, key=_order))
    }
    added = tuple(values for values in after if values not in before.partitions)
    emptied = tuple(values for values in before.partitions if values not in after)
    moved = tuple(
        values for values in after if values in before.partitions and after[values] != before.partitions[values]
    )
    witness = None
    for values in (*moved, *added, *emptied)[:1]:
        old, new = before.partitions.get(values), after.get(values)
        witness = Witness(values, old.folder if old is not None else None, new.folder if new is not None else None)
    return Switch(VersionPartitions(before.columns, after, witness), added, moved, emptied)


def _with_files(before: Partition | None, files: frozenset[str], folder: Path) -> Partition:
    return before if before is not None and before.files == files else Partition(folder, files)


def _order(values: Values) -> tuple[str, ...]:
    return tuple("" if value is None else value for value in values)


def unused_folders(removed: VersionPartitions, others: Iterable[VersionPartitions]) -> list[Path]:
    """Return the folders of the partitions of a version that is removed, but for those that ``others`` have, too.

    >>> one = VersionPartitions(("day",), {("1",): Partition(Path("/v1/0")), ("2",): Partition(Path("/v1/1"))})
    >>> unused_folders(one, [VersionPartitions(("day",), {("2",): Partition(Path("/v1/1"))})])
    [PosixPath('/v1/0')]
    """
    used = {partition.folder for other in others for partition in other.partitions.values()}
    return [each.folder for each in removed.partitions.values() if each.folder not in used]


def added_columns(table: Sequence[tuple[str, str]], version: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Return the columns of a version that a table lacks, and why the table cannot have the others as they are.

    Columns are pairs of a name and a type, and are matched by name, without regard to letter case.

    >>> added_columns([("id", "int"), ("net", "float")], [("net", "double"), ("ID", "int"), ("vat", "int")])
    (['vat'], ['net is float in the table and double in the version'])
    """
    present = {name.lower(): type_ for name, type_ in table}
    new = [name for name, _ in version if name.lower() not in present]
    wrong = [
        f"{name} is {present[name.lower()]} in the table and {type_} in the version"
        for name, type_ in version
        if present.get(name.lower(), type_).lower() != type_.lower()
    ]
    return new, wrong
