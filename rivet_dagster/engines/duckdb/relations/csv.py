"""CSV files, as far as it is certain what Spark reads in them.

Spark's reader has rules for quotes, escapes and malformed values that DuckDB does not have. So a file is looked at
first: if its lines cannot be taken apart but in one way, DuckDB reads their fields as texts. A field is then converted
if it is written in the one plain way that both read alike; any other one ends the query with RVT-519.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from functools import partial

from rivet_dagster.engines.duckdb.relations.paths import DataFile, list_of
from rivet_dagster.engines.duckdb.types import duckdb_type, literal, quoted
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import SparkType

_DEFAULTS = {
    "header": "false",
    "sep": ",",
    "nullvalue": "",
    "escape": "\\",
    "inferschema": "false",
    "multiline": "false",
    "encoding": "utf-8",
    "quote": '"',
    "mode": "permissive",
    "enforceschema": "true",
}
_FIXED = {"inferschema": "false", "multiline": "false", "encoding": "utf-8", "quote": '"'}
_ALIASES = {"delimiter": "sep", "charset": "encoding"}
_SPARK = "Run the joint on Spark, which reads such files by rules of its own."

_WHOLE = r"[+-]?[0-9]+"
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_PATTERNS = {
    "tinyint": _WHOLE,
    "smallint": _WHOLE,
    "int": _WHOLE,
    "bigint": _WHOLE,
    "float": _NUMBER,
    "double": _NUMBER,
    "boolean": r"(?i)true|false",
    "date": _DATE,
    "timestamp": rf"{_DATE}({_TIME}(Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?",
    "timestamp_ntz": rf"{_DATE}({_TIME})?",
}
"""The plain way of writing a value of each type, in which Spark and DuckDB read the same."""


def csv_query(
    files: Sequence[DataFile], declared: Sequence[tuple[str, SparkType]] | None, given: Mapping[str, str]
) -> str:
    """Return the query that reads files with the columns ``declared``, or with texts named by the header.

    ``given`` are Spark's reader options, in lower case. Raises RVT-519.
    """
    options = _options(given)
    if not files:
        items = [f"CAST(NULL AS {duckdb_type(kind)}) AS {quoted(name)}" for name, kind in declared or ()]
        return f"SELECT {', '.join(items)} WHERE false"
    has_header = options["header"] == "true"
    headers = [_header(file, options["sep"]) for file in files] if has_header else []
    columns = list(declared) if declared is not None else _of_header(headers)
    if has_header and declared is not None and options["enforceschema"] == "false":
        _refuse_other_headers(files, headers, [name for name, _ in columns])
    has_quotes = any(list(map(partial(_refuse_doubtful, options=options, columns=len(columns)), files)))
    texts = ", ".join(f"{literal(name)}: 'VARCHAR'" for name, _ in columns)
    escape = '"' if options["escape"] == '"' or not has_quotes else options["escape"]
    null = options["nullvalue"]
    # Of texts without quotes the reader itself finds those that stand for NULL, which takes less time.
    nulls, null = ("''", null) if has_quotes else (f"['', {literal(null)}]" if null else "''", "")
    reader = (
        f"read_csv({list_of(files)}, auto_detect=false, columns={{{texts}}}, delim={literal(options['sep'])}, "
        f"quote='\"', escape={literal(escape)}, header={options['header']}, nullstr={nulls}, allow_quoted_nulls=false, "
        "hive_partitioning=false, max_line_size=16777216)"
    )
    items = [f"{_value(name, kind, null, has_quotes)} AS {quoted(name)}" for name, kind in columns]
    return f"SELECT {', '.join(items)} FROM {reader}"


def _options(given: Mapping[str, str]) -> dict[str, str]:
    named = {_ALIASES.get(key, key): value for key, value in given.items() if key != "schema"}
    if others := named.keys() - _DEFAULTS.keys():
        message = f"the engine duckdb has no reader option {', '.join(sorted(others))} for CSV"
        raise RivetError("RVT-519", message, remediation=_SPARK)
    options = _DEFAULTS | named
    for key in ("header", "inferschema", "multiline", "enforceschema", "mode", "encoding"):
        options[key] = options[key].lower()
    options["encoding"] = {"utf8": "utf-8"}.get(options["encoding"], options["encoding"])
    wrong = [key for key, value in _FIXED.items() if options[key] != value]
    wrong += ["escape"] if options["escape"] not in ('"', "\\") else []
    wrong += ["sep"] if len(options["sep"]) != 1 else []
    wrong += ["mode"] if options["mode"] not in ("permissive", "failfast") else []
    if wrong:
        message = f"the engine duckdb does not read CSV with `{wrong[0]}` {options[wrong[0]]!r}"
        raise RivetError("RVT-519", message, remediation=_SPARK)
    return options


def _header(file: DataFile, separator: str) -> list[str]:
    with open(file.path, encoding="utf-8") as opened:
        line = opened.readline().rstrip("\r\n")
    if not line or '"' in line or "\\" in line:
        raise _doubtful(file, "a header that is empty or has quotes")
    return line.split(separator)


def _of_header(headers: list[list[str]]) -> list[tuple[str, SparkType]]:
    if not headers or any(header != headers[0] for header in headers) or "" in headers[0]:
        message = "the columns of the CSV files are not certain"
        raise RivetError("RVT-519", message, remediation="Declare the source's `schema`, or run the joint on Spark.")
    return [(name, SparkType("string")) for name in headers[0]]


def _refuse_other_headers(files: Sequence[DataFile], headers: list[list[str]], names: list[str]) -> None:
    for file, header in zip(files, headers, strict=True):
        if [name.lower() for name in header] != [name.lower() for name in names]:
            message = f"the header of {file.path} does not have the columns of the schema: {', '.join(names)}"
            raise RivetError("RVT-503", message, remediation="Correct the source's `schema`, or the file.")


def _refuse_doubtful(file: DataFile, options: Mapping[str, str], columns: int) -> bool:
    """Return whether a file has quotes. Raises RVT-519 for what DuckDB may take apart otherwise than Spark."""
    if os.path.splitext(file.path)[1].lower() in (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate", ".xz"):
        raise _doubtful(file, "compressed lines, which are not looked at")
    if os.path.getsize(file.path) == 0:
        return False
    with open(file.path, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[:3] == b"\xef\xbb\xbf":
            raise _doubtful(file, "a byte order mark")
        if content.find(b"\r") >= 0 and _has_lone_return(content):
            raise _doubtful(file, "carriage returns that do not end a line")
        if columns == 1 and (content.find(b"\n\n") >= 0 or content.find(b"\n\r\n") >= 0 or content[:1] in b"\r\n"):
            raise _doubtful(file, "empty lines")
        if content.find(b'"') < 0:
            return False
        if options["escape"] == "\\" and (content.find(b"\\") >= 0 or content.find(b'""') >= 0):
            raise _doubtful(file, "quotes within quotes")
    return True


def _has_lone_return(content: mmap.mmap) -> bool:
    position = content.find(b"\r")
    while position >= 0:
        if content[position + 1 : position + 2] != b"\n":
            return True
        position = content.find(b"\r", position + 1)
    return False


def _doubtful(file: DataFile, what: str) -> RivetError:
    message = f"{file.path} has {what}: the engine duckdb may read it otherwise than Spark"
    return RivetError("RVT-519", message, remediation=_SPARK)


def _value(name: str, kind: SparkType, null: str, has_quotes: bool) -> str:
    """Return the expression of a column's value in a row of texts."""
    text = quoted(name)
    value = f"NULLIF({text}, {literal(null)})" if null else text
    type_ = duckdb_type(kind)
    converted = value if kind.kind == "string" else f"CAST({value} AS {type_})"
    whens = [f"WHEN {value} IS NULL THEN NULL"]
    if has_quotes:  # a line of Spark's ends within quotes, too
        whens.append(f"WHEN contains({text}, chr(10)) THEN {_refused(name, kind, value)}")
    if kind.kind != "string":
        whens.append(f"WHEN NOT regexp_full_match({value}, {_pattern(kind)}) THEN {_refused(name, kind, value)}")
    return value if whens == whens[:1] and kind.kind == "string" else f"CASE {' '.join(whens)} ELSE {converted} END"


def _refused(name: str, kind: SparkType, value: str) -> str:
    message = literal(f"RVT-519 the column {name}, {kind}, has a value that may be another one on Spark: ")
    return f"error({message} || left({value}, 100))"


def _pattern(kind: SparkType) -> str:
    if kind.kind == "decimal":
        return literal(rf"[+-]?[0-9]+(\.[0-9]{{0,{kind.scale}}})?")
    if kind.kind not in _PATTERNS:
        raise RivetError("RVT-519", f"the engine duckdb reads no column of the type {kind} in CSV", remediation=_SPARK)
    return literal(_PATTERNS[kind.kind])
