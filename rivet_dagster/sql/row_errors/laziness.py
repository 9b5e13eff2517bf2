"""Which operands Spark does not evaluate, and so cannot raise, tried on Spark 4.1 with a row of NULLs and errors.

An operator not named here evaluates its operands from left to right and ends at the first NULL: ``NULL + 1 / 0``
is NULL, ``1 / 0 + NULL`` raises.
"""

DIVISIONS = frozenset({"/", "div", "%", "pmod"})
"""Operators that evaluate the right operand first: ``NULL / (1 / 0)`` raises, ``(1 / 0) / NULL`` is NULL."""

EAGER = frozenset(
    """
    <=> is_distinct_from array map struct named_struct hash xxhash64 greatest least
    concat_ws get_json_object sha2 make_interval timestampadd try_divide locate
    """.split()
)
"""Operators and functions that evaluate all operands, NULL or not."""

BRANCHING = frozenset("and or case if coalesce nvl nvl2 decode nullif in between".split())
"""Operators that evaluate an operand only if those before it have not given the result.

``NULL AND x`` and ``NULL OR x`` evaluate x; ``false AND x`` and ``true OR x`` do not. Where an operand is the literal
``false`` or ``true``, on whichever side, Spark removes the other one when it plans the query.
"""

UNCERTAIN = frozenset("concat trunc encode parse_url map_concat arrays_zip array_repeat".split())
"""Functions that end at a NULL in generated code and evaluate all operands in interpreted code, or the reverse."""
