"""Why a call of one of Spark's functions may raise, besides the casts of its arguments."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from sqlglot import exp

from rivet_dagster.sql.row_errors.function_reasons import (
    FIRST_FIELD_IS_NULL,
    INVALID_PATH,
    MALFORMED,
    NULL_OR_DUPLICATE,
    OUT_OF_BOUNDS,
    OUT_OF_INSTANTS,
    PATTERN_REASON,
    TOO_LARGE,
    UNNAMED_REASON,
    ZERO_REASON,
    Operands,
    Own,
    aes,
    always,
    datetime_pattern,
    decoded,
    element,
    encoded,
    formatted,
    groups,
    has_index,
    integer,
    interval,
    is_between,
    is_constant,
    is_day_of_week,
    like,
    made_timestamp,
    map_keys,
    parsed,
    parsed_instant,
    parsing_pattern,
    path,
    pattern,
    query_of_url,
    read_number,
    replacement,
    rounded,
    rounded_up,
    seconds_parsed,
    sequence,
    unless,
    with_options,
    written,
    zones,
)
from rivet_dagster.sql.row_errors.implicit_casts import Reason, cast_of, casts_of, is_string, parameters, text_of
from rivet_dagster.sql.row_errors.operator_sites import arithmetic, negation
from rivet_dagster.sql.row_errors.site import UNNAMED, Site, Unclassified, constant_raises, site_for


def function_site(name: str, operands: Operands) -> Site | Unclassified | None:
    """Return the site of a call of Spark's function ``name``; None if it never raises, Unclassified if not known.

    >>> function_site("next_day", [exp.column("day"), exp.column("name")]).condition
    "CASE WHEN typeof({0}) LIKE 'string%' AND {0} IS NOT NULL AND try_cast(CAST({0} AS STRING) AS DATE) IS NULL THEN \
'CAST_INVALID_INPUT' ELSE 'ILLEGAL_DAY_OF_WEEK' END"
    """
    if name in ("abs", "negative"):
        return negation(operands[0], name) if len(operands) == 1 else None
    if name == "pmod":
        return arithmetic(operands[0], operands[1], name) if len(operands) == 2 else None
    listed = _OWN.get(name)
    if listed is None and name not in parameters() and name not in infallible():
        return Unclassified(name)
    try:
        reasons = listed(operands) if listed is not None else []
    except IndexError:
        return None  # Spark refuses a call that lacks arguments
    if reasons and name in _STATEFUL and not (name == "map" and len(operands) == 2):
        return Unclassified(name)
    values = [operand for operand in operands if not isinstance(operand, exp.Lambda)]
    return site_for(name, values, [*casts_of(name, operands), *reasons])


_STATEFUL = frozenset("map map_concat map_from_arrays map_from_entries str_to_map transform_keys".split())
"""Functions that keep the keys of a row for which they failed, and then fail for the next row, too.

A map of one pair fails before it has kept its key.
"""


@cache
def infallible() -> frozenset[str]:
    """Return the names of functions that never raise, whatever arguments Spark's analyzer lets through."""
    return frozenset((files("rivet_dagster.sql.row_errors") / "infallible.txt").read_text("utf-8").split())


_OWN: dict[str, Own] = {
    "[]": element("INVALID_ARRAY_INDEX"),
    "element_at": element("INVALID_ARRAY_INDEX_IN_ELEMENT_AT", "INVALID_INDEX_OF_ZERO"),
    "try_element_at": element("", "INVALID_INDEX_OF_ZERO"),
    "add_months": unless(is_between(1, -100000, 100000), Reason("", "true", "ARITHMETIC_OVERFLOW")),
    "aes_decrypt": aes(4),
    "aes_encrypt": aes(5),
    "array_insert": unless(
        lambda operands: 0 != (integer(operands[1]) or 0) < 10000,
        Reason("", "CAST({1} AS STRING) = '0'", "INVALID_INDEX_OF_ZERO"),
        Reason("", "true", TOO_LARGE),
    ),
    "array_repeat": unless(is_between(1, -(2**31), 2**30), Reason("", "true", "_LEGACY_ERROR_TEMP_2176")),
    "array_sort": lambda operands: [Reason("", "true", "COMPARATOR_RETURNS_NULL")] if len(operands) > 1 else [],
    "assert_true": always("USER_RAISED_EXCEPTION"),
    "bit_get": unless(is_between(1, 0, 7), Reason("", "true", "INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE")),
    "bround": rounded,
    "ceil": rounded_up,
    "conv": always("ARITHMETIC_OVERFLOW"),
    "convert_timezone": lambda operands: [
        *cast_of(operands[-1], len(operands) - 1, "timestamp_ntz"),
        *zones(*range(len(operands) - 1))(operands),
    ],
    "date_format": datetime_pattern(1),
    "decode": decoded,
    "elt": unless(has_index, Reason("", "true", "INVALID_ARRAY_INDEX")),
    "encode": encoded,
    "floor": rounded_up,
    "format_number": unless(
        lambda operands: text_of(operands[1]) is not None or integer(operands[1]) is not None,
        Reason(is_string(1), "true", UNNAMED),
    ),
    "format_string": formatted,
    "from_csv": with_options,
    "from_json": with_options,
    "from_unixtime": datetime_pattern(1),
    "from_utc_timestamp": zones(1),
    "from_xml": with_options,
    "ilike": like,
    "like": like,
    "make_date": always(OUT_OF_BOUNDS),
    "make_dt_interval": interval("INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION"),
    "make_interval": interval("ARITHMETIC_OVERFLOW"),
    "make_timestamp": made_timestamp,
    "make_timestamp_ltz": made_timestamp,
    "make_timestamp_ntz": made_timestamp,
    "make_ym_interval": interval("INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION"),
    "map": map_keys,
    "map_concat": always("DUPLICATED_MAP_KEY"),
    "map_from_arrays": lambda operands: [
        Reason("", "size({0}) <> size({1})", "_LEGACY_ERROR_TEMP_2128"),
        *NULL_OR_DUPLICATE,
    ],
    "map_from_entries": lambda operands: [
        Reason("", FIRST_FIELD_IS_NULL, "NULL_MAP_KEY"),
        Reason("", "true", "DUPLICATED_MAP_KEY"),
    ],
    "next_day": unless(is_day_of_week, Reason("", "true", "ILLEGAL_DAY_OF_WEEK")),
    "parse_json": always(MALFORMED),
    "parse_url": query_of_url,
    "printf": formatted,
    "raise_error": always("USER_RAISED_EXCEPTION"),
    "regexp": pattern(UNNAMED),
    "regexp_count": PATTERN_REASON,
    "regexp_extract": groups,
    "regexp_extract_all": groups,
    "regexp_instr": PATTERN_REASON,
    "regexp_like": pattern(UNNAMED),
    "regexp_replace": replacement,
    "regexp_substr": PATTERN_REASON,
    "round": rounded,
    "sequence": sequence,
    "slice": lambda operands: [
        *unless(lambda o: integer(o[1]) not in (None, 0), Reason("", "{1} = 0", "INVALID_PARAMETER_VALUE.START"))(
            operands
        ),
        *unless(is_between(2, 0, 2**31), Reason("", "true", "INVALID_PARAMETER_VALUE.LENGTH"))(operands),
    ],
    "split": pattern(UNNAMED),
    "split_part": unless(lambda operands: integer(operands[2]) not in (None, 0), ZERO_REASON, UNNAMED_REASON),
    "substring_index": unless(is_between(2, -(2**31) + 1, 2**31), UNNAMED_REASON),
    "str_to_map": lambda operands: [
        *(
            []
            if all(text_of(operand) is not None for operand in operands[1:])
            else [Reason("", constant_raises("regexp_like('', CAST({1} AS STRING))"), UNNAMED)]
        ),
        Reason("", "true", "DUPLICATED_MAP_KEY"),
    ],
    "transform_keys": lambda operands: [Reason("", "true", "DUPLICATED_MAP_KEY")],
    "timestamp_millis": always(OUT_OF_INSTANTS, "NOT typeof({0}) IN ('tinyint', 'smallint', 'int', 'void')"),
    "timestamp_seconds": always(
        OUT_OF_INSTANTS, "NOT typeof({0}) IN ('tinyint', 'smallint', 'int', 'float', 'double', 'void')"
    ),
    "timestampadd": always("DATETIME_OVERFLOW"),
    "to_binary": always("CONVERSION_INVALID_INPUT"),
    "to_char": written,
    "to_date": parsed,
    "to_number": read_number,
    "to_timestamp": parsed_instant,
    "to_timestamp_ltz": parsed_instant,
    "to_timestamp_ntz": parsed,
    "to_utc_timestamp": zones(1),
    "to_varchar": written,
    "try_make_timestamp": zones(6),
    "try_make_timestamp_ltz": zones(6),
    "try_parse_url": unless(is_constant(2), UNNAMED_REASON),
    "try_to_date": parsing_pattern(1),
    "try_to_timestamp": parsing_pattern(1),
    "try_variant_get": unless(is_constant(1), Reason("", "true", INVALID_PATH)),
    "unbase64": always(UNNAMED),
    "unix_timestamp": seconds_parsed,
    "url_decode": always("CANNOT_DECODE_URL"),
    "validate_utf8": always("INVALID_UTF8_STRING"),
    "variant_get": lambda operands: [
        *unless(is_constant(1), path(1))(operands),
        Reason("", "true", "INVALID_VARIANT_CAST"),
    ],
    **dict.fromkeys("xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long".split(), always(UNNAMED)),
    **dict.fromkeys("xpath_number xpath_short xpath_string".split(), always(UNNAMED)),
}
