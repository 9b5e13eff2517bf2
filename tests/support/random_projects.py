"""Random projects: graphs of any shape, and joints with every SQL construct that fusing might change.

Every relation has three columns (INT, INT, STRING) with its own names, so that any query can read any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from rivet_dagster.model.joint import Joint
from rivet_dagster.model.project import PythonFunction
from support.projects import python, sink, source, sql

Columns = tuple[str, str, str]
Row = tuple[int | None, int | None, str | None]

GATE = {"assertions": [{"type": "row_count", "min": 0}]}
WARNING = {"audits": [{"type": "row_count", "min": 0, "severity": "warn"}]}

# graphs


@dataclass
class Shape:
    """The joints of a project, and the functions of Python joints."""

    joints: list[Joint] = field(default_factory=list)
    functions: dict[str, PythonFunction] = field(default_factory=dict)


@st.composite
def shapes(draw: st.DrawFn, most: int = 14) -> Shape:
    """Generate a graph of sources, SQL and Python joints and sinks, with arbitrary queries."""
    found = Shape()
    readable: list[str] = []
    for name in draw(st.lists(st.sampled_from("abcdefghijklmnopqrst"), min_size=1, max_size=most, unique=True)):
        kind = draw(st.sampled_from([*["sql"] * 6, "source", "python", "sink"] if readable else ["source", "sql"]))
        engine = draw(st.sampled_from([*[None] * 8, "other"]))
        gate = draw(st.sampled_from([*[None] * 9, GATE, WARNING]))
        # The other engine of the profile cannot use the catalog of sources and sinks.
        common = {"engine": engine if kind in ("sql", "python") else "spark"} | ({"quality": gate} if gate else {})
        upstream = draw(st.lists(st.sampled_from(readable[-4:]), unique=True, max_size=3)) if readable else []
        if kind == "source":
            found.joints.append(source(name, **common))
        elif kind == "sql":
            eager = draw(st.sampled_from([*[False] * 6, True]))
            found.joints.append(sql(name, _reading(draw, upstream), eager=eager, **common))
        elif kind == "python":
            joint, functions = python(name, *upstream, eager=draw(st.booleans()), **common)
            found.joints.append(joint)
            found.functions |= functions
        else:
            upstream = upstream or readable[:1]
            found.joints.append(sink(name, *upstream, **common))
        if kind != "sink":
            readable.append(name)
    return found


def _reading(draw: st.DrawFn, upstream: list[str]) -> str:
    """Generate a query that reads each of ``upstream`` once or twice, and may be non-deterministic."""
    text = draw(st.sampled_from(["SELECT 1 AS x", "SELECT rand() AS x", "WITH c AS (SELECT 1 AS x) SELECT * FROM c"]))
    for name in upstream:
        again = draw(st.sampled_from(["", "", f", {name} AS again"]))
        text += f" UNION ALL SELECT x FROM {name}{again}"
    return text


# projects that run

NAMES = (
    "a", "b", "c", "x", "r", "orders", "select", "table", "group", "order", "values", "join", "left", "lateral",
    "union", "recursive", "date", "minus", "own_view", "own_table",
)  # fmt: skip
ENGINE_TABLES: dict[str, Columns] = {"own_view": ("k", "v", "s"), "own_table": ("K", "Order", "a b")}
"""Tables of the engine that no joint makes."""

COLUMNS: tuple[Columns, ...] = (
    ("k", "v", "s"),
    ("K", "Order", "a b"),
    ("select", "from", "x;y"),
    ("v", "k", "a--b"),
    ("Key", "value", "na`me"),
    ("a", "b", "orders"),
)
TEXTS = ("a", "b--c", "d;e", "it's", "/* x */", "é", '"q"')
GAPS = (
    " ", " ", " ", " ", " ", "\n", "\n\t", " /* ; */ ", " -- it's; FROM a\n", " /* /* in */ -- \n */ ",
    " -- \"\n", " --\n",
)  # fmt: skip
ENDS = ("", "", "", ";", " ;\n", " -- the end", "\n/* the end */", "; -- ;", " --;\n;;")


@dataclass(frozen=True)
class Relation:
    """Something that a query can read; ``joints`` are the joints that it reads."""

    columns: Columns
    most_rows: int
    joints: frozenset[str] = frozenset()


@dataclass
class RandomProject:
    """Joints in topological order, with what the generator knows about them."""

    sources: dict[str, list[Row]] = field(default_factory=dict)
    columns: dict[str, Columns] = field(default_factory=dict)
    joints: list[Joint] = field(default_factory=list)
    upstream: dict[str, frozenset[str]] = field(default_factory=dict)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __str__(self) -> str:
        lines = [f"{name}{self.columns[name]}: {rows}" for name, rows in self.sources.items()]
        for joint in self.joints:
            flags = [joint.engine or "", "eager" if joint.eager else "", "gate" if joint.quality else ""]
            lines.append(f"[{joint.name}] {' '.join(flags)} {joint.upstream or ''}\n{joint.sql or ''}")
        return "\n".join(lines)


def quote(name: str) -> str:
    """Return a name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: int | str | None) -> str:
    """Return a value as a literal of Spark."""
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    return "NULL" if value is None else str(value)


@st.composite
def projects(draw: st.DrawFn) -> RandomProject:
    """Generate a project of 2 to 12 joints that can be run."""
    found = RandomProject()
    names = draw(st.lists(st.sampled_from(NAMES), min_size=3, max_size=12, unique=True))
    number_of_sources = draw(st.integers(1, min(2, len(names) - 2)))
    relations: dict[str, Relation] = {}
    for name in names[:number_of_sources]:
        columns = draw(st.sampled_from(COLUMNS))
        found.sources[name] = draw(st.lists(_rows, min_size=0, max_size=5))
        found.columns[name] = columns
        kinds = zip(columns, ("INT", "INT", "STRING"), strict=True)
        schema = {"schema": ", ".join(f"{quote(column)} {kind}" for column, kind in kinds)}
        gate = draw(st.sampled_from([{}, {}, {}, GATE]))
        found.joints.append(source(name, engine="spark", quality=gate, options=draw(st.sampled_from([schema, {}]))))
        found.upstream[name] = frozenset()
        relations[name] = Relation(columns, len(found.sources[name]), frozenset([name]))
    for name in names[number_of_sources:]:
        hidden = {n: Relation(c, 3) for n, c in ENGINE_TABLES.items() if n not in names or n == name}
        query = _Query(draw, {**relations, **hidden}, tuple(names))
        text, relation = query.whole()
        declared = query.unreadable or draw(st.sampled_from([False, False, False, True]))
        engine = draw(st.sampled_from([None, None, None, None, "other"]))
        found.joints.append(
            sql(
                name,
                text,
                eager=draw(st.sampled_from([False] * 6 + [True])),
                engine=engine,
                upstream=sorted(relation.joints) if declared else None,
                quality=draw(st.sampled_from([{}] * 6 + [GATE, WARNING])),
            )
        )
        found.columns[name] = relation.columns
        found.upstream[name] = relation.joints
        relations[name] = Relation(relation.columns, relation.most_rows, frozenset([name]))
    _add_sink(draw, found)
    return found


def _add_sink(draw: st.DrawFn, found: RandomProject) -> None:
    """Add a sink over joints with the same columns, which a union by name needs."""
    first = draw(st.sampled_from(found.joints)).name
    alike = [
        n for n, c in found.columns.items() if set(c) == set(found.columns[first]) and c[2] == found.columns[first][2]
    ]
    upstream = draw(st.lists(st.sampled_from(alike), min_size=1, max_size=3, unique=True))
    found.joints.append(sink("out", *upstream))
    found.columns["out"] = found.columns[upstream[0]]
    found.upstream["out"] = frozenset(upstream)


_values = st.none() | st.integers(0, 4)
_rows: st.SearchStrategy[Row] = st.tuples(_values, _values, st.none() | st.sampled_from(TEXTS))


class _Query:
    """Generates one query. ``·`` in a template is a position for a comment or a line break."""

    def __init__(self, draw: st.DrawFn, visible: dict[str, Relation], names: tuple[str, ...]) -> None:
        self.draw = draw
        self.visible = visible
        self.names = names
        self.unreadable = False
        self._gaps = draw(st.lists(st.sampled_from(GAPS), min_size=1, max_size=6))
        self._aliases = 0

    def whole(self) -> tuple[str, Relation]:
        """Return the text of a joint and its output columns."""
        text, relation = self.query(self.visible, 2)
        return "".join(self._written(text)).strip() + self.choose(ENDS), relation

    def choose(self, options: Any) -> Any:
        """Choose one of ``options``."""
        return self.draw(st.sampled_from(options))

    def query(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        """Generate a query over ``visible``, with or without CTEs."""
        if not depth or self.choose([True, True, False]):
            return self.body(visible, depth)
        recursive = self.choose([False, False, True])
        visible = dict(visible)
        texts, declared = [], frozenset[str]()
        for name in self.draw(st.lists(st.sampled_from((*self.names, "n")), min_size=1, max_size=2, unique=True)):
            shown = self.choose([quote(name), quote(name.upper()), quote(name)])
            if recursive and self.choose([True, False]):
                text, relation = self.recursion(visible, name)
                texts.append(text)
            else:
                # In a WITH RECURSIVE a CTE that names itself is recursive.
                outer = {n: r for n, r in visible.items() if n != name} if recursive else visible
                text, relation = self.body(outer, depth - 1) if outer else self.values()
                if self.choose([False, False, True]):
                    relation = Relation(self.choose(COLUMNS), relation.most_rows, relation.joints)
                    shown += f"·({', '.join(map(quote, relation.columns))})"
                texts.append(f"{shown}·AS·(·{text}\n)")
            visible[name] = relation
            declared |= relation.joints
        text, relation = self.body(visible, depth - 1)
        self.unreadable |= text.startswith(("TABLE", "VALUES"))  # after a WITH
        word = "WITH·RECURSIVE" if recursive else "WITH"
        whole = f"{word}·{',·'.join(texts)}·{text}"
        return whole, Relation(relation.columns, relation.most_rows, relation.joints | declared)

    def body(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        """Generate a query without CTEs."""
        forms = [self.filtered, self.joined, self.grouped, self.combined, self.correlated, self.exploded, self.windowed,
                 self.aliased, self.piped, self.rest]  # fmt: skip
        if not visible:
            return self.values()
        return self.choose(forms)(visible, depth)

    def read(self, visible: dict[str, Relation], depth: int = 0) -> tuple[str, str, Columns, Relation]:
        """Generate a relation with an alias; return its text, the alias, and its columns as written in the query."""
        self._aliases += 1
        alias = self.choose([f"t{self._aliases}", f"T{self._aliases}", quote(f"a {self._aliases}")])
        if depth and self.choose([False, False, False, True]):
            text, relation = self.query(visible, depth - 1)
            shown = f"(·{text}\n)"
        else:
            # Mostly the latest joints, so that the graph is deep as well as wide.
            names = list(visible)
            name = self.choose(names[-3:] + names[-1:] + names)
            relation = visible[name]
            shown = quote(self.choose([name, name, name.upper(), name.capitalize()]))
        k, v, s = (f"{alias}.{quote(self.choose([c, c, c.upper()]))}" for c in relation.columns)
        return f"{shown}·{self.choose(['AS·', ''])}{alias}", alias, (k, v, s), relation

    def output(self, k: str, v: str, s: str) -> tuple[str, Columns]:
        """Generate a select list and its names."""
        columns = self.choose(COLUMNS)
        shown = ",·".join(f"{text}·AS·{quote(name)}" for text, name in zip((k, v, s), columns, strict=True))
        return shown, columns

    def condition(self, k: str, v: str, s: str) -> str:
        """Generate a condition."""
        return self.choose([
            f"{k} > {self.choose(range(4))}", f"{s} IS NOT NULL", f"{s}·<>·'--;'", f"{v} % 2 = 0 OR {k} IS NULL",
            f"{s} LIKE '%;%' OR {k} < 3", f"NOT ({v} <=> {k})", f"{s} <> \"/*\"", "true",
            f"{k} IN (1, 2,·3)", f"coalesce({s}, r'\\') <> ''",
        ])  # fmt: skip

    def capped(self, text: str, relation: Relation) -> tuple[str, Relation]:
        """Limit the query to its first rows if there may be many."""
        if relation.most_rows <= 40 and self.choose([True, True, False]):
            return text, relation
        order = self.choose(["1, 2, 3", "1 DESC, 3, 2", "3 NULLS LAST, 2, 1"])
        text = f"{text}·ORDER BY {order}·LIMIT·7"
        return text, Relation(relation.columns, min(relation.most_rows, 7), relation.joints)

    def values(self) -> tuple[str, Relation]:
        """Generate VALUES."""
        return self.choose([
            ("SELECT·*·FROM·VALUES·(1,·2,·'--;'),·(3,·NULL,·'/*') AS t·(k, v, s)", Relation(("k", "v", "s"), 2)),
            ("VALUES·(1,·2,·'it\\'s; --'),·(2, 3, \"'\")", Relation(("col1", "col2", "col3"), 2)),
            ("SELECT 1 AS `select`,·2 AS `from`,·';' AS `x;y`", Relation(("select", "from", "x;y"), 1)),
        ])  # fmt: skip

    def filtered(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        text, _, c, relation = self.read(visible, depth)
        items, columns = self.output(c[0], self.choose([c[1], f"pmod({c[1]} + 1, 7)", c[0]]), c[2])
        where = self.condition(*c)
        # The same query with FROM first, and with a star.
        shown, columns = self.choose([
            (f"SELECT·{items}·FROM·{text}·WHERE·{where}", columns),
            (f"FROM·{text}·SELECT·{items}·WHERE·{where}", columns),
            (f"SELECT·*·FROM·{text}·WHERE·{where}", relation.columns),
            (f"SELECT·DISTINCT·{items}·FROM·{text}", columns),
        ])  # fmt: skip
        return self.capped(shown, Relation(columns, relation.most_rows, relation.joints))

    def joined(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        one, _, c, left = self.read(visible, depth)
        other, _, d, right = self.read(visible, depth)
        rows = left.most_rows * right.most_rows
        joints = left.joints | right.joints
        kind = self.choose(
            ["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT OUTER JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", ","]
        )
        on = self.choose([f"{c[0]} = {d[0]}", f"{c[0]} <=> {d[0]}", f"{c[0]} = {d[1]} AND {c[2]} <> {d[2]}"])
        half = "LEFT S" in kind or "ANTI" in kind
        items, columns = self.output(c[0], c[1] if half else d[1], c[2] if half else f"coalesce({c[2]}, {d[2]})")
        if kind == ",":
            shown = f"SELECT·{items}·FROM·{one},·{other}·WHERE·{on}"
        else:
            shown = f"SELECT·{items}·FROM·{one}·{kind}·{other}·ON·{on}"
        return self.capped(shown, Relation(columns, left.most_rows if half else rows + 10, joints))

    def grouped(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        text, _, c, relation = self.read(visible, depth)
        number = self.choose([
            f"CAST(pmod(sum({c[1]}), 97) AS INT)", "CAST(count(*) AS INT)", f"max({c[1]})",
            f"CAST(count(DISTINCT {c[1]}) FILTER (WHERE {c[0]} > 1) AS INT)",
        ])  # fmt: skip
        items, columns = self.output(c[0], number, f"min({c[2]})")
        group, having = self.choose(["GROUP BY ALL", f"GROUP·BY·{c[0]}", "GROUP BY 1", f"GROUP BY ROLLUP({c[0]})"]), ""
        if group != "GROUP BY ALL":
            having = self.choose(["", f"·HAVING·count(*) > {self.choose(range(2))}"])
        shown = f"SELECT·{items}·FROM·{text}·{group}{having}"
        return self.capped(shown, Relation(columns, relation.most_rows + 1, relation.joints))

    def combined(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        one, left = self.part(visible, depth)
        other, right = self.part(visible, depth)
        word = self.choose(["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "MINUS", "EXCEPT ALL", "INTERSECT ALL"])
        rows = left.most_rows + right.most_rows
        shown = f"(·{one}\n)·{word}·(·{other}\n)"
        return self.capped(shown, Relation(left.columns, rows, left.joints | right.joints))

    def part(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        """Generate one side of a set operation."""
        if depth and self.choose([False, True]):
            return self.query(visible, depth - 1)
        name = self.choose(list(visible))
        return f"TABLE {quote(name)}", visible[name]

    def correlated(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        text, _, c, relation = self.read(visible, depth)
        inner, _, d, other = self.read(visible)
        on = self.choose([f"{d[0]} = {c[0]}", f"{d[0]} = {c[1]} AND {d[2]} IS NOT NULL"])
        joints = relation.joints | other.joints
        items, columns = self.output(c[0], f"(SELECT·max({d[1]})·FROM·{inner}·WHERE·{on})", c[2])
        plain, plain_columns = self.output(*c)
        lateral, lateral_columns = self.output(c[0], "l.m", c[2])
        shown, columns = self.choose([
            (f"SELECT·{items}·FROM·{text}", columns),
            (f"SELECT·{plain}·FROM·{text}·WHERE·EXISTS·(SELECT 1 FROM·{inner}·WHERE·{on})", plain_columns),
            (f"SELECT·{plain}·FROM·{text}·WHERE·NOT EXISTS·(SELECT 1 FROM·{inner}·WHERE·{on})", plain_columns),
            (f"SELECT·{plain}·FROM·{text}·WHERE·{c[0]}·IN·(SELECT {d[1]} FROM·{inner})", plain_columns),
            (f"SELECT·{lateral}·FROM·{text},·LATERAL·(SELECT max({d[1]}) AS m FROM·{inner}·WHERE·{on}) AS l",
             lateral_columns),
        ])  # fmt: skip
        return self.capped(shown, Relation(columns, relation.most_rows, joints))

    def exploded(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        text, _, c, relation = self.read(visible, depth)
        items, columns = self.output(c[0], "e.`item`", c[2])
        pairs = self.choose([f"array({c[0]},·{c[1]})", f"transform(array({c[0]}, 1),·a·->·a + 1)"])
        shown = self.choose([
            f"SELECT·{items}·FROM·{text}·LATERAL VIEW·OUTER explode({pairs})·e·AS·`item`",
            f"SELECT·{items}·FROM·{text},·LATERAL explode({pairs}) AS e(`item`)",
        ])  # fmt: skip
        return self.capped(shown, Relation(columns, relation.most_rows * 2, relation.joints))

    def windowed(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        text, _, c, relation = self.read(visible, depth)
        number = self.choose([
            f"CAST(rank() OVER (PARTITION BY {c[0]}·ORDER BY {c[1]}) AS INT)",
            "CAST(count(*) OVER·w AS INT)",
            f"max({c[1]}) OVER·(w)",
        ])  # fmt: skip
        items, columns = self.output(c[0], number, c[2])
        named = f"·WINDOW·w·AS·(PARTITION BY {c[2]})" if "OVER·w" in number or "(w)" in number else ""
        return self.capped(f"SELECT·{items}·FROM·{text}{named}", Relation(columns, relation.most_rows, relation.joints))

    def aliased(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        """Generate a column that another one of the same list uses by its alias."""
        text, _, c, relation = self.read(visible, depth)
        shown = f"SELECT·{c[0]} + 1 AS next_k,·pmod(next_k * 3, 5) AS `Value`,·{c[2]}·AS·`a b`·FROM·{text}"
        return self.capped(shown, Relation(("next_k", "Value", "a b"), relation.most_rows, relation.joints))

    def piped(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        name = self.choose(list(visible))
        relation = visible[name]
        k, v, s = map(quote, relation.columns)
        other = self.choose(list(visible))
        alias = quote(self.choose((*self.names, "p")))
        form = self.choose(["where", "as", "limit", "aggregate", "set", "union"])
        start, rows, joints = f"FROM·{quote(name)}", relation.most_rows, relation.joints
        if form == "as":
            start += f"·|> AS {alias}·|>·WHERE {alias}.{k} > 0"
        elif form == "limit":
            start += f"·|> ORDER BY {k}, {v}, {s}·|> LIMIT 3"
        elif form == "aggregate":
            start += f"·|> AGGREGATE CAST(count(*) AS INT) AS {v},·max({s}) AS {s} GROUP BY {k}"
        elif form == "set":
            self.unreadable = True
            start += f"·|> SET {v} = {k}·|> WHERE {k} IS NOT NULL"
        elif form == "union":
            start += f"·|> UNION ALL (TABLE {quote(other)})"
            rows, joints = rows + visible[other].most_rows, joints | visible[other].joints
        else:
            start += f"·|>·WHERE {self.condition(k, v, s)}·|>·SELECT *"
        return start, Relation(relation.columns, rows, joints)

    def rest(self, visible: dict[str, Relation], depth: int) -> tuple[str, Relation]:
        text, _, c, relation = self.read(visible, depth)
        name = self.choose(list(visible))
        variant = f"CAST(parse_json(concat('{{\"a\": ', coalesce({c[1]}, 0), '}}')):a AS INT)"
        folded = f"aggregate(array({c[0]}, 1), 0,·(x, a) -> pmod(x + coalesce(a, 0), 9))"
        items, columns = self.output(c[0], self.choose([variant, folded]), c[2])
        forms = [
            (f"SELECT·{items}·FROM·{text}", Relation(columns, relation.most_rows, relation.joints)),
            (f"TABLE {quote(name)}", visible[name]),
            (f"(TABLE {quote(name)})", visible[name]),
            self.values(),
        ]
        return self.choose(forms)

    def recursion(self, visible: dict[str, Relation], name: str) -> tuple[str, Relation]:
        """Generate a complete recursive CTE."""
        others = {n: r for n, r in visible.items() if n != name}
        if others:
            text, _, c, relation = self.read(others)
            start = f"SELECT {c[0]}, {c[1]}, {c[2]} FROM·{text}"
        else:
            start, relation = "SELECT 1, 2, ';'", Relation(("k", "v", "s"), 1)
        shown = f"{quote(name)}·(k, v, s)·AS·(·{start}·UNION ALL·SELECT·k + 1, v, s FROM·{quote(name)}·WHERE·k < 3)"
        return shown, Relation(("k", "v", "s"), relation.most_rows * 4, relation.joints)

    def _written(self, template: str) -> Iterator[str]:
        for position, part in enumerate(template.split("·")):
            if position:
                yield self._gaps[position % len(self._gaps)]
            yield part
