"""Reasons for which calls of functions may raise: builders and rules, by which `functions` lists them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp

from rivet_dagster.sql.row_errors.implicit_casts import (
    CAST_INVALID_INPUT,
    Reason,
    decimal_text,
    fails_to_cast,
    is_other_constant,
    is_string,
    text_of,
)
from rivet_dagster.sql.row_errors.operator_sites import OUT_OF_RANGE
from rivet_dagster.sql.row_errors.site import UNNAMED, constant_raises, literal

Operands = Sequence[exp.Expr]
Own = Callable[[Operands], list[Reason]]

OUT_OF_BOUNDS = (
    "concat('DATETIME_FIELD_OUT_OF_BOUNDS', CASE WHEN version() LIKE '4.0.%' THEN ''"
    " WHEN version() RLIKE '^4[.][12][.]' THEN '.WITH_SUGGESTION' ELSE '.WITHOUT_SUGGESTION' END)"
)
"""The template of the condition, which has another name in Spark 4.0, in 4.1 and 4.2, and since."""

OUT_OF_INSTANTS = (
    "CASE WHEN typeof({0}) LIKE 'decimal%' OR version() RLIKE '^4[.][0-2][.]'"
    f" THEN '{UNNAMED}' ELSE 'DATETIME_OVERFLOW' END"
)
"""The template of the condition of a number that is no TIMESTAMP, to which Spark gives a name since 4.3."""

MALFORMED = "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION"
_PARAMETER = "INVALID_PARAMETER_VALUE"
TOO_LARGE = "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER"


def always(condition: str, guard: str = "") -> Own:
    """Return the reason of a function any call of which may raise."""
    return lambda operands: [Reason(guard, "true", condition)]


def unless(harmless: Callable[[Operands], bool], *reasons: Reason) -> Own:
    """Return the reasons of a function, but for calls that are ``harmless``."""
    return lambda operands: [] if harmless(operands) else list(reasons)


def integer(operand: exp.Expr) -> int | None:
    """Return the value of an integer literal; None for anything else."""
    operand = operand.unnest()
    sign = -1 if isinstance(operand, exp.Neg) else 1
    number = operand.this if isinstance(operand, exp.Neg) else operand
    is_integer = isinstance(number, exp.Literal) and not number.is_string and number.name.isdigit()
    return sign * int(number.name) if is_integer else None


def is_between(i: int, low: int, high: int) -> Callable[[Operands], bool]:
    """Return a function that tells whether an operand is missing, or a constant within a range."""

    def is_within(operands: Operands) -> bool:
        value = integer(operands[i]) if i < len(operands) else low
        return value is not None and low <= value <= high

    return is_within


def is_constant(i: int) -> Callable[[Operands], bool]:
    """Return a function that tells whether an operand is missing, or a string literal."""
    return lambda operands: i >= len(operands) or text_of(operands[i]) is not None


def zone(i: int) -> Reason:
    """Return the reason of an argument that is a time zone."""
    probe = constant_raises(f"from_utc_timestamp(TIMESTAMP'2020-01-01 00:00:00', CAST({{{i}}} AS STRING))")
    return Reason("", probe, "INVALID_TIMEZONE")


def zones(*positions: int) -> Own:
    """Return the reasons of arguments that are time zones; a constant one is known when Spark plans the query."""

    def own(operands: Operands) -> list[Reason]:
        reasons = [zone(i) for i in positions if i < len(operands)]
        return [
            Reason(reason.when, reason.when, reason.condition) if text_of(operands[i]) is not None else reason
            for i, reason in zip(positions, reasons, strict=False)
        ]

    return own


def pattern(condition: str) -> Own:
    """Return the reason of a regular expression; a literal is known when Spark plans the query."""

    def own(operands: Operands) -> list[Reason]:
        invalid = constant_raises("regexp_like('', CAST({1} AS STRING))")
        constant = text_of(operands[1]) is not None
        return [Reason(invalid if constant else "", invalid, condition)]

    return own


PATTERN_REASON = pattern("INVALID_PARAMETER_VALUE.PATTERN")


def groups(operands: Operands) -> list[Reason]:
    """Return why regexp_extract may raise: its pattern, or the number of a group that the pattern does not have."""
    group = integer(operands[2]) if len(operands) > 2 else 1
    known = number_of_groups(operands[1])
    if known is not None and group is not None and 0 <= group <= known:
        return []
    return [*PATTERN_REASON(operands), Reason("", "true", "INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX")]


def replacement(operands: Operands) -> list[Reason]:
    """Return why regexp_replace may raise: its pattern, or a group that the pattern does not have."""
    text = text_of(operands[2]) if len(operands) > 2 else ""
    if text is not None and "\\" not in text:
        used = [int(number) for number in re.findall(r"\$(\d)", text)]
        known = number_of_groups(operands[1]) if used else 0
        if text.count("$") == len(used) and known is not None and max(used, default=0) <= known:
            return PATTERN_REASON(operands)
    return [*PATTERN_REASON(operands), Reason("", "true", "INVALID_REGEXP_REPLACE")]


def number_of_groups(pattern: exp.Expr) -> int | None:
    """Return the number of groups of a literal; None for anything else."""
    text = text_of(pattern)
    try:
        return re.compile(text).groups if text is not None else None
    except re.error:
        return None


def _since_4_1(condition: str) -> str:
    """Return the template of a condition that Spark 4.0 does not have: it raises a plain Java exception."""
    return f"CASE WHEN version() LIKE '4.0.%' THEN '{UNNAMED}' ELSE '{condition}' END"


def read_number(operands: Operands) -> list[Reason]:
    """Return why to_number may raise: a text that is not as its format says; Spark 4.0 fails for one without digits."""
    empty = "NOT CAST({0} AS STRING) RLIKE '[0-9]'"
    mismatch = "INVALID_FORMAT.MISMATCH_INPUT"
    return [Reason("", empty, _since_4_1(mismatch)), Reason("", "true", mismatch)]


def datetime_pattern(i: int, guard: str = "") -> Own:
    """Return the reasons of a column as the pattern by which a date is written."""
    return unless(is_constant(i), Reason(guard, "true", _faulty_pattern(i, "ABnNp")))


def parsing_pattern(i: int) -> Own:
    """Return the reason of a column as the pattern by which a text is read as a date."""
    faulty = constant_raises(f"try_to_timestamp('', CAST({{{i}}} AS STRING))")
    return unless(is_constant(i), Reason("", faulty, _faulty_pattern(i, "ABnNpEFqQ")))


def _faulty_pattern(i: int, refused: str) -> str:
    """Return the template of the condition of a faulty pattern: another one if Java's older classes could read it.

    ``refused`` are letters that Java knows and Spark does not take.
    """
    text = f"regexp_replace(CAST({{{i}}} AS STRING), '\\'[^\\']*\\'', '')"
    changed = "INCONSISTENT_BEHAVIOR_CROSS_VERSION"
    return (
        f"CASE WHEN NOT {text} RLIKE '[ABCIJNOPQRTUVbcefgijlnopqrtvx\\']|XXXX'"
        f" THEN '{changed}.DATETIME_PATTERN_RECOGNITION'"
        f" WHEN {text} RLIKE '[YWwuec]' THEN '{changed}.DATETIME_WEEK_BASED_PATTERN'"
        f" WHEN {text} RLIKE '[{refused}]' THEN 'INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER'"
        f" WHEN {text} RLIKE 'GGGGG|MMMMM|LLLLL|EEEEE|uuuuu|QQQQQ|qqqqq|ww|yyyyyyy|DDDD'"
        " THEN 'INVALID_DATETIME_PATTERN.LENGTH'"
        f" ELSE {_since_4_1('INVALID_DATETIME_PATTERN.WITH_SUGGESTION')} END"
    )


def parsed(operands: Operands) -> list[Reason]:
    """Return why a text with a format may raise; without one it is cast. Numbers and booleans are read as texts."""
    guard = "NOT typeof({0}) IN ('date', 'timestamp', 'timestamp_ntz', 'void')"
    if len(operands) < 2:
        return [Reason(guard, "true", CAST_INVALID_INPUT)]
    return [*parsing_pattern(1)(operands), Reason(guard, "true", "CANNOT_PARSE_TIMESTAMP")]


def parsed_instant(operands: Operands) -> list[Reason]:
    """Return the same of a TIMESTAMP, to which numbers are cast where there is no format."""
    overflows = "typeof({0}) IN ('float', 'double') AND NOT CAST({0} AS STRING) IN ('NaN', 'Infinity', '-Infinity')"
    return [*([Reason(overflows, overflows, "CAST_OVERFLOW")] if len(operands) < 2 else []), *parsed(operands)]


def seconds_parsed(operands: Operands) -> list[Reason]:
    """Return why unix_timestamp may raise for a text and its format."""
    pattern = parsing_pattern(1)(operands) if len(operands) > 1 else []
    return [*pattern, Reason(is_string(0), "true", "CANNOT_PARSE_TIMESTAMP")] if operands else []


def written(operands: Operands) -> list[Reason]:
    """Return why to_char may raise: strings and fractions are cast to DECIMAL(38, 18), and dates have patterns."""
    fractions = "typeof({0}) IN ('float', 'double')"
    return [
        *decimal_text(0, 20),
        Reason(fractions, "abs(try_cast(CAST({0} AS STRING) AS DOUBLE)) >= 1e20D", OUT_OF_RANGE),
        Reason("typeof({0}) = 'binary'", "typeof({0}) = 'binary'", "MALFORMED_CHARACTER_CODING"),
        *datetime_pattern(1, "typeof({0}) IN ('date', 'timestamp', 'timestamp_ntz')")(operands),
    ]


def query_of_url(operands: Operands) -> list[Reason]:
    """Return why parse_url may raise: its URL, or else the name of a parameter, of which it makes a pattern."""
    invalid = Reason("", "true", "INVALID_URL")
    if len(operands) < 3 or text_of(operands[2]) is not None:
        return [invalid]
    malformed = constant_raises("parse_url(CAST({0} AS STRING), 'HOST')")
    return [Reason("", f"NOT ({malformed})", UNNAMED), invalid]


def with_options(operands: Operands) -> list[Reason]:
    """Return why from_json, from_csv and from_xml may raise: only if their options say so."""
    return [Reason("", "true", MALFORMED)] if len(operands) > 2 else []


def rounded(operands: Operands) -> list[Reason]:
    """Return why round may raise: integers and decimals of 38 digits may have no room for the rounded value."""
    places = integer(operands[1]) if len(operands) > 1 else 0
    decimal = "typeof({0}) LIKE 'decimal(38,%'"
    out_of_range = Reason(decimal, decimal, "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION")
    if places is not None and places >= 0:
        return [out_of_range]
    integers = "typeof({0}) IN ('tinyint', 'smallint', 'int', 'bigint')"
    return [out_of_range, Reason(integers, integers, "ARITHMETIC_OVERFLOW")]


def rounded_up(operands: Operands) -> list[Reason]:
    """Return why ceil and floor may raise: Spark 4.3 checks the BIGINT of a fraction.

    With a number of places they cast to a decimal of 30 or 38 digits.
    """
    double = f"typeof({{0}}) IN ('float', 'double') OR {is_string(0)}"
    if len(operands) < 2:
        return [Reason(double, double, "ARITHMETIC_OVERFLOW")]
    decimal = "typeof({0}) LIKE 'decimal(3%'"
    malformed = f"{is_string(0)} AND try_cast(CAST({{0}} AS STRING) AS DOUBLE) IS NULL"
    return [
        Reason(decimal, decimal, "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION"),
        Reason(double, malformed, "CAST_INVALID_INPUT"),
        Reason(double, double, "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"),
    ]


def element(outside: str, zero: str = "") -> Own:
    """Return the reasons of an access to an array, or to a map, to the type of whose keys the operand is cast."""
    same_type = "typeof({0}) LIKE concat('map<', typeof({1}), ',%') OR typeof({0}) LIKE 'map<string%'"
    key = f"typeof({{0}}) LIKE 'map%' AND NOT ({same_type})"
    array = "typeof({0}) LIKE 'array%'"

    def own(operands: Operands) -> list[Reason]:
        reasons = [
            Reason(f"{key} AND {is_string(1)}", f"{key} AND {is_string(1)}", "CAST_INVALID_INPUT"),
            Reason(f"{key} AND NOT {is_string(1)}", key, "CAST_OVERFLOW"),
        ]
        if zero and integer(operands[1]) in (None, 0):
            reasons.append(Reason(array, f"{array} AND CAST({{1}} AS STRING) = '0'", zero))
        return [*reasons, *([Reason(array, "true", outside)] if outside else [])]

    return own


def map_keys(operands: Operands) -> list[Reason]:
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


NULL_OR_DUPLICATE = [
    Reason("", "exists({0}, key -> key IS NULL)", "NULL_MAP_KEY"),
    Reason("", "true", "DUPLICATED_MAP_KEY"),
]
FIRST_FIELD_IS_NULL = "exists({0}, entry -> to_json(entry, map('ignoreNullFields', 'false')) RLIKE '^.\"[^\"]*\":null')"


def decoded(operands: Operands) -> list[Reason]:
    """Return why decode may raise: for bytes that are no text in the character set."""
    charset = text_of(operands[1]) if len(operands) == 2 else None
    malformed = Reason("", "true", "MALFORMED_CHARACTER_CODING")
    if charset is not None:
        return [] if charset.lower() == "iso-8859-1" else [malformed]
    return [CHARSET_REASON, malformed] if len(operands) == 2 else []


def encoded(operands: Operands) -> list[Reason]:
    """Return why encode may raise: for characters that the character set does not have."""
    charset = text_of(operands[1])
    if charset is not None and charset.lower().startswith("utf-"):
        return []
    return [CHARSET_REASON, Reason("", "true", "MALFORMED_CHARACTER_CODING")]


CHARSETS = "'iso-8859-1', 'us-ascii', 'utf-8', 'utf-16', 'utf-16be', 'utf-16le', 'utf-32'"
CHARSET_REASON = Reason("", f"lower(CAST({{1}} AS STRING)) NOT IN ({CHARSETS})", "INVALID_PARAMETER_VALUE.CHARSET")


def like(operands: Operands) -> list[Reason]:
    """Return why LIKE may raise: no pattern ends with its escape character, or has it before another character."""
    pattern = text_of(operands[1])
    escape = (text_of(operands[2]) if len(operands) > 2 else "\\") or "\\"
    if isinstance(operands[1], exp.Any | exp.All) or (pattern is not None and escape not in pattern):
        return []
    text = "CAST({1} AS STRING)"
    ends = f"(length({text}) - length(rtrim({literal(escape)}, {text}))) % 2 = 1"
    return [Reason("", ends, "INVALID_FORMAT.ESC_AT_THE_END"), Reason("", "true", "INVALID_FORMAT.ESC_IN_THE_MIDDLE")]


def formatted(operands: Operands) -> list[Reason]:
    """Return why format_string may raise: a literal of ``%s`` alone never does."""
    text = text_of(operands[0])
    harmless = (
        text is not None and not re.search(r"%[^s%]", text.replace("%%", "")) and text.count("%s") < len(operands)
    )
    return [] if harmless else [Reason("", "true", UNNAMED)]


def made_timestamp(operands: Operands) -> list[Reason]:
    """Return why make_timestamp may raise."""
    seconds = "try_cast(CAST({5} AS STRING) AS DOUBLE)"
    reasons = []
    if len(operands) > 5:
        reasons.append(Reason("", f"{seconds} > 60 AND {seconds} < 61", "INVALID_FRACTION_OF_SECOND"))
    if len(operands) > 6:
        reasons.append(zone(6))
    return [*reasons, Reason("", "true", OUT_OF_BOUNDS)]


def interval(condition: str) -> Own:
    """Return the reason of a function that makes an interval."""

    def own(operands: Operands) -> list[Reason]:
        if all((value := integer(operand)) is not None and abs(value) < 10000 for operand in operands):
            return []
        return [Reason("", "true", condition)]

    return own


def aes(added: int) -> Own:
    """Return why AES may raise; ``added`` is the position of what it authenticates, 4 if it takes no vector there."""

    def own(operands: Operands) -> list[Reason]:
        names = [f"upper(CAST({{{i}}} AS STRING))" for i in range(2, min(len(operands), 4))]
        mode, padding = (*names, *("'GCM'", "'DEFAULT'")[len(names) :])
        reasons = [Reason("", "octet_length(CAST({1} AS BINARY)) NOT IN (16, 24, 32)", f"{_PARAMETER}.AES_KEY_LENGTH")]
        if names:
            known = "'GCM DEFAULT', 'GCM NONE', 'CBC DEFAULT', 'CBC PKCS', 'ECB DEFAULT', 'ECB PKCS'"
            unknown = f"concat({mode}, ' ', {padding}) NOT IN ({known})"
            reasons.append(Reason("", unknown, "UNSUPPORTED_FEATURE.AES_MODE"))
        if len(operands) > 4 and added > 4:
            length = "octet_length(CAST({4} AS BINARY))"
            wrong = f"{length} > 0 AND {length} <> CASE {mode} WHEN 'CBC' THEN 16 ELSE 12 END"
            reasons.append(Reason("", f"{mode} = 'ECB' AND {length} > 0", "UNSUPPORTED_FEATURE.AES_MODE_IV"))
            reasons.append(Reason("", wrong, f"{_PARAMETER}.AES_IV_LENGTH"))
        if len(operands) > added:
            given = f"octet_length(CAST({{{added}}} AS BINARY)) > 0 AND {mode} <> 'GCM'"
            reasons.append(Reason("", given, "UNSUPPORTED_FEATURE.AES_MODE_AAD"))
        failed = f"{_PARAMETER}.AES_CRYPTO_ERROR"
        short = f"{mode} = 'GCM' AND octet_length(CAST({{0}} AS BINARY)) < 12"
        return [*reasons, Reason("", short, _since_4_1(failed)), Reason("", "true", failed)]

    return own


def is_day_of_week(operands: Operands) -> bool:
    """Return whether the second operand is the literal name of a day."""
    text = text_of(operands[1])
    days = "su sun sunday mo mon monday tu tue tuesday we wed wednesday th thu thursday fr fri friday sa sat saturday"
    return text is not None and text.lower() in days.split()


def sequence(operands: Operands) -> list[Reason]:
    """Return why sequence may raise: bounds that are no numbers, a step away from the end, or too many steps."""
    texts = [f"CAST({{{i}}} AS STRING)" for i in range(len(operands))]
    reasons = [
        Reason(is_string(i), fails_to_cast(i, 1 if i == 0 else 0), CAST_INVALID_INPUT)
        for i, operand in enumerate(operands)
        if not is_other_constant(operand)
    ]
    if len(operands) > 2:
        start, stop, step = (f"try_cast({text} AS DOUBLE)" for text in texts[:3])
        still = f"typeof({{2}}) LIKE 'interval%' AND NOT {texts[2]} RLIKE '[1-9]'"
        reaches = f"({stop} - {start}) * {step} > 0"
        reasons.append(Reason("", still, "_LEGACY_ERROR_TEMP_3242"))
        reasons.append(Reason("", f"NOT coalesce({reaches}, false)", "_LEGACY_ERROR_TEMP_3243"))
    return [*reasons, Reason("", "true", TOO_LARGE)]


def has_index(operands: Operands) -> bool:
    """Return whether the first operand is the literal number of one of the others."""
    index = integer(operands[0])
    return index is not None and 0 < index < len(operands)


def path(i: int) -> Reason:
    """Return the reason of an argument that is a path into a variant."""
    return Reason(
        "", constant_raises(f"try_variant_get(parse_json('null'), CAST({{{i}}} AS STRING), 'int')"), INVALID_PATH
    )


INVALID_PATH = "INVALID_VARIANT_GET_PATH"
ZERO_REASON = Reason("", "abs(try_cast(CAST({2} AS STRING) AS DOUBLE)) < 1", "INVALID_INDEX_OF_ZERO")
UNNAMED_REASON = Reason("", "true", UNNAMED)
