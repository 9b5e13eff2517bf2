"""SQL texts with a few tokens removed, doubled or swapped, like typing errors."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from support.example import EXAMPLE
from support.tpch import QUERIES

_TOKENS = re.compile(r"\w+|\s+|'[^']*'|\|>|.", re.DOTALL)
_WORDS = (
    *("ELSE", "MAP(", "OUT ", "|> LIMIT", "|> ", "FROM ", "WITH ", "OVER (", "date_trunc()", "map('a', 1, 'b')"),
    *("CASE ", "INTERVAL ", "AS ", "{{ this }}", "{", "::", ":", "->", "@", "?", "STRUCT<", "[", "PIVOT(", ".", "*"),
    *("--", "/*", "*/", "'", '"', "`", "\\", "\n", ")", "(", ";", "/*+ ", "r'", "decode(", "IDENTIFIER(", "9e999"),
)
EXPRESSIONS = (
    "id > 1 AND name LIKE 'a%' OR CASE WHEN net IS NULL THEN true ELSE false END",
    "transform(ys, q -> q + 1)[0] IS NOT NULL AND CAST(s.a AS DECIMAL(9, 2)) BETWEEN -1 AND 1e3",
    "date_trunc('MONTH', at) = DATE '2024-01-01' -- of the month",
)
TYPES = ("STRUCT<a: ARRAY<INT>, b: MAP<STRING, DATE>>", "DECIMAL(10, 2)", "id BIGINT NOT NULL, s STRING COMMENT 'x'")


def corpus() -> list[str]:
    """Return the queries of the example and those of TPC-H."""
    return [file.read_text() for file in sorted(EXAMPLE.rglob("*.sql"))] + [query.plain for query in QUERIES.values()]


def mutated(seed: int, count: int, texts: list[str]) -> Iterator[str]:
    """Return ``count`` variants of ``texts``, the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        tokens = _TOKENS.findall(chance.choice(texts))
        for _ in range(chance.randint(1, 3)):
            _mutate(tokens, chance)
        yield "".join(tokens)


def _mutate(tokens: list[str], chance: random.Random) -> None:
    place = chance.randrange(len(tokens) + 1)
    until = min(len(tokens), place + chance.randint(1, 4))
    other = chance.randrange(len(tokens) + 1)
    match chance.randrange(5):
        case 0:
            del tokens[place:until]
        case 1:
            tokens[place:place] = tokens[place:until]
        case 2:
            tokens[place:until], tokens[other:other] = [], tokens[place:until]
        case 3:
            tokens.insert(place, chance.choice(_WORDS))
        case _:  # removes the arguments of a call, or their end
            calls = [n for n, token in enumerate(tokens) if token == "("]
            if calls:
                begin = chance.choice(calls) + 1
                end = next((n for n in range(begin, len(tokens)) if tokens[n] == ")"), len(tokens))
                del tokens[begin : end + chance.randint(0, 1)]
