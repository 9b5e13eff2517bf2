"""Values of CSV files as Spark makes them of texts.

Sail reads all columns as texts, since its own conversion of them is another than Spark's; these expressions convert
them: a text that is no value of the type is NULL, as in Spark's mode PERMISSIVE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_WHOLE = "^[+-]?[0-9]+$"
_NUMBER = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$"
_DATE = "^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}$"
_TIME = "([ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?"
_MOMENT = f"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{_TIME}(Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?$"
_LOCAL = f"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{_TIME})?$"

_FORMS: Mapping[str, tuple[str, str | None]] = {
    "tinyint": (_WHOLE, None),
    "smallint": (_WHOLE, None),
    "int": (_WHOLE, None),
    "bigint": (_WHOLE, None),
    "decimal": ("^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)$", "^[+-]?[0-9.]+[eE]"),
    "date": (_DATE, "^[+-]?[0-9]"),
    "timestamp": (_MOMENT, "^[+-]?[0-9T]"),
    "timestamp_ntz": (_LOCAL, "^[+-]?[0-9T]"),
}
"""For each type the form of texts that are cast, and of others that Spark may take, too: such a text is an error."""

_NAMED = {"NaN": "NaN", "Inf": "Infinity", "Infinity": "Infinity", "-Inf": "-Infinity", "-Infinity": "-Infinity"}


def unread_columns(ddl: str) -> Iterator[tuple[str, str]]:
    """Yield the name and type of columns that cannot be read.

    >>> list(unread_columns("a INT, b BINARY, c STRING"))
    [('b', 'binary')]
    """
    from rivet_dagster.sql.columns.type_names import parse_ddl

    for field in parse_ddl(ddl) or ():
        if not _is_read(str(field.type)):
            yield field.name, str(field.type)


def value_expression(column: str, type_: str, null: str) -> str:
    """Return the expression, in Spark's SQL, of the value that a column of texts holds; ``null`` stands for NULL.

    >>> value_expression("`a`", "int", "")
    "CASE WHEN `a` RLIKE '^[+-]?[0-9]+$' THEN try_cast(`a` AS int) END"
    """
    text = column if null == "" else f"nullif({column}, {_quoted(null)})"
    base = type_.partition("(")[0]
    if base == "string":
        return text
    if base == "boolean":
        return f"CASE lower({text}) WHEN 'true' THEN true WHEN 'false' THEN false END"
    if base in ("float", "double"):
        named = " ".join(f"WHEN '{name}' THEN cast('{value}' AS {base})" for name, value in _NAMED.items())
        return (
            f"CASE {text} {named} ELSE CASE WHEN trim({text}) RLIKE '{_NUMBER}' THEN try_cast(trim({text}) AS {base}) "
            f"WHEN {text} RLIKE '^[ ]*[+-]?[0-9.]' THEN {_doubtful(text, base)} END END"
        )
    form, doubtful = _FORMS[base]
    otherwise = "" if doubtful is None else f" WHEN {text} RLIKE '{doubtful}' THEN {_doubtful(text, type_)}"
    return f"CASE WHEN {text} RLIKE '{form}' THEN try_cast({text} AS {type_}){otherwise} END"


def _is_read(type_: str) -> bool:
    return type_ in ("string", "boolean", "float", "double") or type_.partition("(")[0] in _FORMS


def _doubtful(text: str, type_: str) -> str:
    message = f"{DOUBTFUL}: a text of a column of the type {type_} that Spark may read otherwise: "
    return f"cast(raise_error(concat({_quoted(message)}, {text})) AS {type_})"


DOUBTFUL = "RVT-519"
"""The beginning of the message of a text that is not read."""


def _quoted(text: str) -> str:
    r"""Return a text as a literal.

    >>> _quoted("it's \\N")
    "'it\\'s \\\\N'"
    """
    return "'" + re.sub(r"([\\'])", r"\\\1", text) + "'"
