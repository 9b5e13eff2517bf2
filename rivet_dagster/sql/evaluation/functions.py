"""Why a call of one of Spark's functions may raise, besides the casts of its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files

from sqlglot import exp

from rivet_dagster.sql.evaluation.arithmetic import arithmetic, negation
from rivet_dagster.sql.evaluation.parameters import Reason, cast_of, casts_of, parameters
from rivet_dagster.sql.evaluation.reasons import site_for
from rivet_dagster.sql.evaluation.site import UNNAMED, Site, Unclassified, constant_raises, literal
from rivet_dagster.sql.evaluation.strings import is_other_constant, is_string, text_of

Operands = Sequence[exp.Expr]
Own = Callable[[Operands], list[Reason]]

OUT_OF_BOUNDS = "DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION"
MALFORMED = "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION"
TOO_LARGE = "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER"


def function_site(name: str, operands: Operands) -> Site | Unclassified | None:
    """Return the site of a call of Spark's function ``name``; None if it never raises, Unclassified if not known.

    >>> function_site("next_day", [exp.column("day"), exp.column("name")]).condition
    "CASE WHEN typeof({0}) LIKE 'string%' AND {0} IS NOT NULL AND try_cast(CAST({0} AS STRING) AS DATE) IS NULL THEN \
'CAST_INVALID_INPUT' ELSE 'ILLEGAL_DAY_OF_WEEK' END"
    """
    if name in ("abs", "negative") and len(operands) == 1:
        return negation(operands[0], name)
    if name in ("pmod", "mod") and len(operands) == 2:
        return arithmetic(operands[0], operands[1], "pmod" if name == "pmod" else "%")
    own = _OWN.get(name)
    if own is None and name not in parameters() and name not in infallible():
        return Unclassified(name)
    values = [operand for operand in operands if not isinstance(operand, exp.Lambda)]
    return site_for(name, values, [*casts_of(name, operands), *(own(operands) if own is not None else [])])


@cache
def infallible() -> frozenset[str]:
    """Return the names of functions that never raise, whatever arguments Spark's analyzer lets through."""
    return frozenset((files("rivet_dagster.sql.evaluation") / "infallible.txt").read_text("utf-8").split())


def _always(condition: str, guard: str = "") -> Own:
    return lambda operands: [Reason(guard, "true", condition)]


def _unless(harmless: Callable[[Operands], bool], *reasons: Reason) -> Own:
    return lambda operands: [] if harmless(operands) else list(reasons)


def _integer(operand: exp.Expr) -> int | None:
    operand = operand.unnest()
    sign = -1 if isinstance(operand, exp.Neg) else 1
    number = operand.this if isinstance(operand, exp.Neg) else operand
    is_integer = isinstance(number, exp.Literal) and not number.is_string and number.name.isdigit()
    return sign * int(number.name) if is_integer else None


def _between(i: int, low: int, high: int) -> Callable[[Operands], bool]:
    """Return a function that tells whether an operand is missing, or a constant within a range."""

    def is_within(operands: Operands) -> bool:
        value = _integer(operands[i]) if i < len(operands) else low
        return value is not None and low <= value <= high

    return is_within


def _constant(i: int) -> Callable[[Operands], bool]:
    return lambda operands: i >= len(operands) or text_of(operands[i]) is not None


def _zone(i: int) -> Reason:
    probe = constant_raises(f"from_utc_timestamp(TIMESTAMP'2020-01-01 00:00:00', CAST({{{i}}} AS STRING))")
    return Reason("", probe, "INVALID_TIMEZONE")


def _zones(*positions: int) -> Own:
    """Return the reasons of arguments that are time zones; a constant one is known when Spark plans the query."""

    def own(operands: Operands) -> list[Reason]:
        reasons = [_zone(i) for i in positions if i < len(operands)]
        return [
            Reason(reason.when, reason.when, reason.condition) if text_of(operands[i]) is not None else reason
            for i, reason in zip(positions, reasons, strict=False)
        ]

    return own


def _pattern(condition: str) -> Own:
    def own(operands: Operands) -> list[Reason]:
        invalid = constant_raises("regexp_like('', CAST({1} AS STRING))")
        constant = text_of(operands[1]) is not None
        return [Reason(invalid if constant else "", invalid, condition)]

    return own


_PATTERN = _pattern("INVALID_PARAMETER_VALUE.PATTERN")


def _groups(operands: Operands) -> list[Reason]:
    """Return why regexp_extract may raise: its pattern, or the number of a group that the pattern does not have."""
    group = _integer(operands[2]) if len(operands) > 2 else 1
    known = _number_of_groups(operands[1])
    if known is not None and group is not None and 0 <= group <= known:
        return []
    return [*_PATTERN(operands), Reason("", "true", "INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX")]


def _replacement(operands: Operands) -> list[Reason]:
    text = text_of(operands[2]) if len(operands) > 2 else ""
    if text is not None and "\\" not in text:
        used = [int(number) for number in re.findall(r"\$(\d)", text)]
        known = _number_of_groups(operands[1]) if used else 0
        if text.count("$") == len(used) and known is not None and max(used, default=0) <= known:
            return _PATTERN(operands)
    return [*_PATTERN(operands), Reason("", "true", "INVALID_REGEXP_REPLACE")]


def _number_of_groups(pattern: exp.Expr) -> int | None:
    text = text_of(pattern)
    try:
        return re.compile(text).groups if text is not None else None
    except re.error:
        return None


def _datetime_pattern(i: int, guard: str = "") -> Own:
    """Return the reasons of a column as the pattern of a date; Spark names its many faults differently."""
    text, changed = f"CAST({{{i}}} AS STRING)", "INCONSISTENT_BEHAVIOR_CROSS_VERSION"
    return _unless(
        _constant(i),
        Reason(guard, f"{text} RLIKE '[ec]'", f"{changed}.DATETIME_WEEK_BASED_PATTERN"),
        Reason(guard, f"{text} RLIKE '[YWwu]'", f"{changed}.DATETIME_PATTERN_RECOGNITION"),
        Reason(guard, "true", "INVALID_DATETIME_PATTERN.WITH_SUGGESTION"),
    )


def _parsed(operands: Operands) -> list[Reason]:
    """Return why a text with a format may raise; without one it is cast."""
    if len(operands) < 2:
        return [Reason(is_string(0), "true", "CAST_INVALID_INPUT")]
    return [Reason(is_string(0), "true", "CANNOT_PARSE_TIMESTAMP")]


def _with_options(operands: Operands) -> list[Reason]:
    return [Reason("", "true", MALFORMED)] if len(operands) > 2 else []


def _rounded(operands: Operands) -> list[Reason]:
    """Return why round may raise: integers and decimals of 38 digits may have no room for the rounded value."""
    places = _integer(operands[1]) if len(operands) > 1 else 0
    decimal = "typeof({0}) LIKE 'decimal(38,%'"
    out_of_range = Reason(decimal, decimal, "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION")
    if places is not None and places >= 0:
        return [out_of_range]
    integers = "typeof({0}) IN ('tinyint', 'smallint', 'int', 'bigint')"
    return [out_of_range, Reason(integers, integers, "ARITHMETIC_OVERFLOW")]


def _rounded_up(operands: Operands) -> list[Reason]:
    """Return why ceil and floor with a number of places may raise: they cast to a decimal of 30 or 38 digits."""
    if len(operands) < 2:
        return []
    decimal = "typeof({0}) LIKE 'decimal(3%'"
    double = f"typeof({{0}}) IN ('float', 'double') OR {is_string(0)}"
    malformed = f"{is_string(0)} AND try_cast(CAST({{0}} AS STRING) AS DOUBLE) IS NULL"
    return [
        Reason(decimal, decimal, "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION"),
        Reason(double, malformed, "CAST_INVALID_INPUT"),
        Reason(double, double, "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"),
    ]


def _element(outside: str, zero: str = "") -> Own:
    """Return the reasons of an access to an array, or to a map, to the type of whose keys a string is cast."""
    key = "typeof({0}) LIKE 'map%' AND typeof({0}) NOT LIKE 'map<string%' AND typeof({1}) LIKE 'string%'"
    array = "typeof({0}) LIKE 'array%'"
    index = f"{array} AND CAST({{1}} AS STRING) = '0'"
    reasons = [Reason(key, key, "CAST_INVALID_INPUT")]
    reasons += [Reason(array, index, zero)] if zero else []
    reasons += [Reason(array, "true", outside)] if outside else []
    return lambda operands: reasons


def _map(operands: Operands) -> list[Reason]:
    """Return why ``map(key, value, ...)`` may raise: keys must not be NULL, and differ."""
    keys = operands[::2]
    texts = [key.sql() for key in keys if isinstance(key.unnest(), exp.Literal)]
    reasons = []
    if len(texts) < len(keys):
        null = " OR ".join(f"{{{2 * i}}} IS NULL" for i in range(len(keys)))
        reasons.append(Reason("", f"({null})", "NULL_MAP_KEY"))
    if len(keys) > 1 and not (len(texts) == len(keys) == len(set(texts))):
        reasons.append(Reason("", "true", "DUPLICATED_MAP_KEY"))
    return reasons


_NULL_OR_DUPLICATE = [
    Reason("", "exists({0}, key -> key IS NULL)", "NULL_MAP_KEY"),
    Reason("", "true", "DUPLICATED_MAP_KEY"),
]
_FIRST_FIELD_IS_NULL = (
    "exists({0}, entry -> to_json(entry, map('ignoreNullFields', 'false')) RLIKE '^.\"[^\"]*\":null')"
)


def _decoded(operands: Operands) -> list[Reason]:
    charset = text_of(operands[1]) if len(operands) == 2 else None
    malformed = Reason("", "true", "MALFORMED_CHARACTER_CODING")
    if charset is not None:
        return [] if charset.lower() == "iso-8859-1" else [malformed]
    return [_CHARSET, malformed] if len(operands) == 2 else []


def _encoded(operands: Operands) -> list[Reason]:
    charset = text_of(operands[1])
    if charset is not None and charset.lower().startswith("utf-"):
        return []
    return [_CHARSET, Reason("", "true", "MALFORMED_CHARACTER_CODING")]


_CHARSETS = "'iso-8859-1', 'us-ascii', 'utf-8', 'utf-16', 'utf-16be', 'utf-16le', 'utf-32'"
_CHARSET = Reason("", f"lower(CAST({{1}} AS STRING)) NOT IN ({_CHARSETS})", "INVALID_PARAMETER_VALUE.CHARSET")


def _like(operands: Operands) -> list[Reason]:
    """Return why LIKE may raise: no pattern ends with its escape character, or has it before another character."""
    pattern = text_of(operands[1])
    escape = (text_of(operands[2]) if len(operands) > 2 else "\\") or "\\"
    if isinstance(operands[1], exp.Any | exp.All) or (pattern is not None and escape not in pattern):
        return []
    text = "CAST({1} AS STRING)"
    ends = f"(length({text}) - length(rtrim({literal(escape)}, {text}))) % 2 = 1"
    return [Reason("", ends, "INVALID_FORMAT.ESC_AT_THE_END"), Reason("", "true", "INVALID_FORMAT.ESC_IN_THE_MIDDLE")]


def _formatted(operands: Operands) -> list[Reason]:
    text = text_of(operands[0])
    harmless = (
        text is not None and not re.search(r"%[^s%]", text.replace("%%", "")) and text.count("%s") < len(operands)
    )
    return [] if harmless else [Reason("", "true", UNNAMED)]


def _made_timestamp(operands: Operands) -> list[Reason]:
    seconds = "try_cast(CAST({5} AS STRING) AS DOUBLE)"
    reasons = []
    if len(operands) > 5:
        reasons.append(Reason("", f"{seconds} > 60 AND {seconds} < 61", "INVALID_FRACTION_OF_SECOND"))
    if len(operands) > 6:
        reasons.append(_zone(6))
    return [*reasons, Reason("", "true", OUT_OF_BOUNDS)]


def _interval(condition: str, seconds: int) -> Own:
    def own(operands: Operands) -> list[Reason]:
        if all((value := _integer(operand)) is not None and abs(value) < 10000 for operand in operands):
            return []
        large = f"abs(try_cast(CAST({{{seconds}}} AS STRING) AS DOUBLE)) >= 1e12D"
        out_of_range = Reason("", large, "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION")
        return [*([out_of_range] if len(operands) > seconds else []), Reason("", "true", condition)]

    return own


def _key_length(operands: Operands) -> list[Reason]:
    length = "octet_length(CAST({1} AS BINARY)) NOT IN (16, 24, 32)"
    return [
        Reason("", length, "INVALID_PARAMETER_VALUE.AES_KEY_LENGTH"),
        Reason("", "true", "INVALID_PARAMETER_VALUE.AES_CRYPTO_ERROR"),
    ]


def _is_day_of_week(operands: Operands) -> bool:
    text = text_of(operands[1])
    days = "su sun sunday mo mon monday tu tue tuesday we wed wednesday th thu thursday fr fri friday sa sat saturday"
    return text is not None and text.lower() in days.split()


def _sequence(operands: Operands) -> list[Reason]:
    """Return why sequence may raise: bounds that are no numbers, a step that never ends, or too many steps."""
    texts = [f"CAST({{{i}}} AS STRING)" for i in range(len(operands))]
    reasons = [
        Reason(is_string(i), f"try_cast({texts[i]} AS BIGINT) IS NULL AND {is_string(i)}", "CAST_INVALID_INPUT")
        for i, operand in enumerate(operands)
        if not is_other_constant(operand)
    ]
    if len(operands) > 2:
        start, stop, step = (f"try_cast({text} AS DOUBLE)" for text in texts)
        still = f"typeof({{2}}) LIKE 'interval%' AND NOT {texts[2]} RLIKE '[1-9]'"
        reaches = f"({stop} - {start}) * {step} > 0"
        reasons.append(Reason("", still, "_LEGACY_ERROR_TEMP_3242"))
        reasons.append(Reason("", f"NOT coalesce({reaches}, false)", "_LEGACY_ERROR_TEMP_3243"))
    return [*reasons, Reason("", "true", TOO_LARGE)]


def _has_index(operands: Operands) -> bool:
    index = _integer(operands[0])
    return index is not None and 0 < index < len(operands)


_ZERO = Reason("", "true", "INVALID_INDEX_OF_ZERO")
_UNNAMED = Reason("", "true", UNNAMED)

_OWN: dict[str, Own] = {
    "[]": _element("INVALID_ARRAY_INDEX"),
    "element_at": _element("INVALID_ARRAY_INDEX_IN_ELEMENT_AT", "INVALID_INDEX_OF_ZERO"),
    "try_element_at": _element("", "INVALID_INDEX_OF_ZERO"),
    "add_months": _unless(_between(1, -100000, 100000), Reason("", "true", "ARITHMETIC_OVERFLOW")),
    "aes_decrypt": _key_length,
    "aes_encrypt": _key_length,
    "array_insert": _unless(
        lambda operands: 0 != (_integer(operands[1]) or 0) < 10000,
        Reason("", "CAST({1} AS STRING) = '0'", "INVALID_INDEX_OF_ZERO"),
        Reason("", "true", TOO_LARGE),
    ),
    "array_repeat": _unless(_between(1, -(2**31), 2**30), Reason("", "true", "_LEGACY_ERROR_TEMP_2176")),
    "assert_true": _always("USER_RAISED_EXCEPTION"),
    "bit_get": _unless(_between(1, 0, 7), Reason("", "true", "INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE")),
    "bround": _rounded,
    "ceil": _rounded_up,
    "conv": _always("ARITHMETIC_OVERFLOW"),
    "convert_timezone": lambda operands: [
        *cast_of(operands[-1], len(operands) - 1, "timestamp_ntz"),
        *_zones(*range(len(operands) - 1))(operands),
    ],
    "date_format": _datetime_pattern(1),
    "decode": _decoded,
    "elt": _unless(_has_index, Reason("", "true", "INVALID_ARRAY_INDEX")),
    "encode": _encoded,
    "floor": _rounded_up,
    "format_number": _unless(
        lambda operands: text_of(operands[1]) is not None or _integer(operands[1]) is not None,
        Reason(is_string(1), "true", UNNAMED),
    ),
    "format_string": _formatted,
    "from_csv": _with_options,
    "from_json": _with_options,
    "from_unixtime": _datetime_pattern(1),
    "from_utc_timestamp": _zones(1),
    "from_xml": _with_options,
    "ilike": _like,
    "like": _like,
    "make_date": _always(OUT_OF_BOUNDS),
    "make_dt_interval": _interval("INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION", 3),
    "make_interval": _interval("ARITHMETIC_OVERFLOW", 6),
    "make_timestamp": _made_timestamp,
    "make_timestamp_ltz": _made_timestamp,
    "make_timestamp_ntz": _made_timestamp,
    "make_ym_interval": _interval("INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION", 9),
    "map": _map,
    "map_concat": _always("DUPLICATED_MAP_KEY"),
    "map_from_arrays": lambda operands: [
        Reason("", "size({0}) <> size({1})", "_LEGACY_ERROR_TEMP_2128"),
        *_NULL_OR_DUPLICATE,
    ],
    "map_from_entries": lambda operands: [
        Reason("", _FIRST_FIELD_IS_NULL, "NULL_MAP_KEY"),
        Reason("", "true", "DUPLICATED_MAP_KEY"),
    ],
    "next_day": _unless(_is_day_of_week, Reason("", "true", "ILLEGAL_DAY_OF_WEEK")),
    "parse_json": _always(MALFORMED),
    "parse_url": _always("INVALID_URL"),
    "printf": _formatted,
    "raise_error": _always("USER_RAISED_EXCEPTION"),
    "regexp": _pattern(UNNAMED),
    "regexp_count": _PATTERN,
    "regexp_extract": _groups,
    "regexp_extract_all": _groups,
    "regexp_instr": _PATTERN,
    "regexp_like": _pattern(UNNAMED),
    "regexp_replace": _replacement,
    "regexp_substr": _PATTERN,
    "round": _rounded,
    "sequence": _sequence,
    "slice": lambda operands: [
        *_unless(lambda o: _integer(o[1]) not in (None, 0), Reason("", "{1} = 0", "INVALID_PARAMETER_VALUE.START"))(
            operands
        ),
        *_unless(_between(2, 0, 2**31), Reason("", "true", "INVALID_PARAMETER_VALUE.LENGTH"))(operands),
    ],
    "split": _pattern(UNNAMED),
    "split_part": _unless(lambda operands: _integer(operands[2]) not in (None, 0), _ZERO),
    "str_to_map": lambda operands: [
        *(
            []
            if all(text_of(operand) is not None for operand in operands[1:])
            else [Reason("", constant_raises("regexp_like('', CAST({1} AS STRING))"), UNNAMED)]
        ),
        Reason("", "true", "DUPLICATED_MAP_KEY"),
    ],
    "transform_keys": lambda operands: [Reason("", "true", "DUPLICATED_MAP_KEY")],
    "timestamp_millis": _always(UNNAMED, "NOT typeof({0}) IN ('tinyint', 'smallint', 'int', 'void')"),
    "timestamp_seconds": _always(
        UNNAMED, "NOT typeof({0}) IN ('tinyint', 'smallint', 'int', 'float', 'double', 'void')"
    ),
    "timestampadd": _always("DATETIME_OVERFLOW"),
    "to_binary": _always("CONVERSION_INVALID_INPUT"),
    "to_char": _datetime_pattern(1, "typeof({0}) IN ('date', 'timestamp', 'timestamp_ntz')"),
    "to_date": _parsed,
    "to_number": _always("INVALID_FORMAT.MISMATCH_INPUT"),
    "to_timestamp": _parsed,
    "to_timestamp_ltz": _parsed,
    "to_timestamp_ntz": _parsed,
    "to_utc_timestamp": _zones(1),
    "to_varchar": _datetime_pattern(1, "typeof({0}) IN ('date', 'timestamp', 'timestamp_ntz')"),
    "unbase64": _always(UNNAMED),
    "unix_timestamp": lambda operands: [Reason(is_string(0), "true", "CANNOT_PARSE_TIMESTAMP")] if operands else [],
    "url_decode": _always("CANNOT_DECODE_URL"),
    "validate_utf8": _always("INVALID_UTF8_STRING"),
    "variant_get": lambda operands: [
        *_unless(_constant(1), Reason("", "NOT CAST({1} AS STRING) LIKE '$%'", "INVALID_VARIANT_GET_PATH"))(operands),
        Reason("", "true", "INVALID_VARIANT_CAST"),
    ],
    **dict.fromkeys("xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long".split(), _always(UNNAMED)),
    **dict.fromkeys("xpath_number xpath_short xpath_string".split(), _always(UNNAMED)),
}
