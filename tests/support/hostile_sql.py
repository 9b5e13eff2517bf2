"""Texts that try to affect a query around them, and texts that only look like that."""

UNBALANCED = (
    "id > 100) AND (id < 0",
    "id > 0) UNION ALL (SELECT id FROM raw",
    "id IN (1, 2",
    "id > 0)",
    "xs[1) = 0 AND (ys]",
    "id > 0; DROP TABLE raw",
    "id > 0 /* open",
    "id > 0 /* one /* two */",
    "name = 'open",
    'name = "open',
    "`id > 0",
    "name = r'\\' OR (')'",
    "id > 0 -- on \\\nand on\n) OR (true",
    "id > 1e-5r'\\') OR ('",
    "id > 0 */ (1",
    "id > 0 }",
)
BALANCED = (
    "id > 0 -- all",
    "id > 0 -- ) AND ( '",
    "id > 0 -- on \\",
    "id > 0 -- on \\\n",
    "id > 0 -- on \\\nand on \\",
    "id > 0 /* ) /* ( */ ; ' */",
    "name <> ')' AND name <> '(;--'",
    "name <> 'it\\'s )' AND name <> 'it''s )'",
    'name <> ")" AND name <> "\\")"',
    "name <> r'\\' AND name <> R\")\"",
    "`a ) ``(` > 0",
    "(((id))) > 0",
)
PIECES = (
    *("(", ")", "[", "]", "{", "}", ";", "'", '"', "`", "\\", "\\\n", "\n", "\r", "\r\n", " ", "--", "/*", "*/", "/*+"),
    *("''", '""', "r'", 'R"', "x'", "a", "id", "1", "1e-5", "1.", ".5", "e", "bd", "://", "a://b", "é", "\u00a0", "²"),
    *("/", "*", "+", "-", ">", "$", "${a}", "array<", "SELECT 1", " UNION ALL ", " AS x"),
)
"""The pieces of which random texts are made."""
