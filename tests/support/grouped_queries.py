"""Queries of the tables o, t and k, and the columns by which their rows are unique; k is unique by id."""

from __future__ import annotations

UNIQUE_BY: dict[str, set[str] | None] = {
    "SELECT c, date(t) AS d, count(*) AS n FROM o GROUP BY c, d": {"c", "d"},
    "SELECT c, date(t) AS d, count(*) AS n FROM o GROUP BY c, date(t)": {"c", "d"},
    "SELECT o.c, sum(x) AS s FROM o JOIN k ON o.id = k.id GROUP BY o.c": {"c"},
    "SELECT c, x FROM o GROUP BY 1, 2": {"c", "x"},
    "SELECT substr(c, 1, 1) AS p, count(*) AS n FROM o GROUP BY substr(c, 1, 1) HAVING n > 1": {"p"},
    "SELECT DISTINCT c, x AS y FROM o": {"c", "y"},
    "SELECT * FROM k WHERE v > 1": {"id"},
    "SELECT id AS i, v FROM k ORDER BY v LIMIT 2": {"i"},
    "SELECT id, v * 2 AS w FROM k": {"id"},
    "WITH g AS (SELECT c, max(x) AS m FROM o GROUP BY c) SELECT c, m * 2 AS w FROM g": {"c"},
    "SELECT upper(c) AS c, count(*) AS n FROM o GROUP BY c": None,
    "SELECT x % 2 AS x, count(*) AS n FROM o GROUP BY x": None,
    "SELECT c, count(*) AS n FROM o GROUP BY c, x": None,
    "SELECT max(x) AS d, count(*) AS n FROM t GROUP BY d": None,
    "SELECT any(x > 3) AS d, count(*) AS n FROM t GROUP BY d": None,
    "SELECT s.x AS d, count(*) AS n FROM t GROUP BY s, d": None,
    "SELECT 1 AS d, count(*) AS n FROM t GROUP BY d": None,
    "SELECT c, explode(collect_list(x)) AS e FROM o GROUP BY c": None,
    "SELECT rand() AS r, count(*) AS n FROM o GROUP BY rand()": None,
    "SELECT c FROM o GROUP BY ALL": None,
    "SELECT c FROM o GROUP BY CUBE(c)": None,
    "SELECT c, x FROM o GROUP BY c, x WITH ROLLUP": None,
    "SELECT DISTINCT * FROM o": None,
    "SELECT v FROM k": None,
    "SELECT *, explode(array(1, 2)) AS e FROM k": None,
    "SELECT k.* FROM k JOIN o ON k.id = o.id": None,
    "SELECT * FROM k LATERAL VIEW explode(array(1, 2)) AS z": None,
    "SELECT * FROM k UNION ALL SELECT * FROM k": None,
    "WITH k AS (SELECT id % 2 AS id FROM o) SELECT * FROM k": None,
    "WITH K AS (SELECT id % 2 AS id FROM o) SELECT * FROM k": None,
}

TABLES = {
    "o": """SELECT id, element_at(array('a', 'A', 'b', NULL), CAST(id % 4 AS INT) + 1) AS c, CAST(id % 3 AS INT) AS x,
        TIMESTAMP '2024-01-01' + make_interval(0, 0, 0, 0, CAST(id AS INT) * 7) AS t FROM range(40)""",
    "t": """SELECT named_struct('x', CAST(id % 2 AS INT), 'y', id % 4) AS s, id % 5 AS d, id % 7 AS x FROM range(40)""",
    "k": "SELECT id, id % 3 AS v FROM range(10)",
}
