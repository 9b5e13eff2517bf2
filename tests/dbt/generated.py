"""Random dbt projects from numbers: the same number gives the same files, so that dbt's results of them are recorded.

Each relation has the columns of ``COLUMNS``, so that any model can read any other one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from generated_texts import AMOUNTS, AT_MOST, CONDITIONS, GROUPS_OF, MACROS, PROFILE, QUERIES, SINGULAR

COLUMNS = ("id", "grp", "amount", "price", "day")
GROUPS = ("a", "b", "c", "D e", "x,y")
STORED = ("table", "table", "append", "overwrite", "overwrite_day", "overwrite_both", "merge", "merge_both")
KINDS = (*STORED, "view", "view", "view", "ephemeral", "ephemeral")


@dataclass
class Generated:
    """A project: its files, those of later builds, what each model reads, and which models add to their tables."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    later: dict[str, str] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)
    reads: dict[str, list[str]] = field(default_factory=dict)
    incremental: set[str] = field(default_factory=set)

    def digest(self) -> str:
        """Return what a record has of the files, to be compared with those of today."""
        text = json.dumps([self.files, self.later], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def after(self, models: set[str]) -> set[str]:
        """Return these models and all that are computed from them."""
        found = set(models)
        for name, reads in self.reads.items():  # in an order in which a model comes after what it reads
            if found & set(reads):
                found.add(name)
        return found


def generate(number: int, settings: Mapping[str, str]) -> Generated:
    """Return the project of a number; ``settings`` are those of dbt's Spark."""
    return _Generator(number, settings).project()


class _Generator:
    def __init__(self, number: int, settings: Mapping[str, str]) -> None:
        self._random, self._settings = Random(number), settings
        self._made = Generated(f"random_{number}")
        self._folders: dict[str, str] = {"staging": "view", "marts": "table"}
        self._described: list[str] = []

    def project(self) -> Generated:
        made, chance = self._made, self._random
        for n in range(chance.randint(1, 2)):
            self._seed(f"s{n}")
        for n in range(chance.randint(3, 6)):
            self._model(f"m{n}", chance.choice(KINDS))
        read = {name for reads in made.reads.values() for name in reads}
        for name in [name for name in made.reads if name not in read and name not in made.incremental]:
            self._model(f"{name}_last", "table", name)  # views and ephemeral ones are seen in a table
        self._singular_tests()
        schemas = {"models": "models/models.yml", "seeds": "seeds/seeds.yml"}
        for kind, file in schemas.items():
            entries = [text for of, text in self._described_by_kind() if of == kind]
            if entries:
                made.files[file] = f"{kind}:\n" + "".join(entries)
        variables = {
            "least": chance.randint(-5, 12),
            "since": f"2024-01-0{chance.randint(1, 4)}",
            "groups": chance.sample(["a", "b", "c"], chance.randint(1, 3)),
            "strict": chance.random() < 0.5,
        }
        folders = {folder: {"+materialized": kind} for folder, kind in self._folders.items()}
        content = {
            "name": made.name,
            "version": "1.0",
            "config-version": 2,
            "profile": made.name,
            "vars": variables,
            "models": {made.name: {"+file_format": "iceberg", **folders}},
            "seeds": {made.name: {"+file_format": "iceberg"}},
        }
        made.files["dbt_project.yml"] = json.dumps(content, indent=1) + "\n"  # JSON is YAML, too
        made.files["profiles.yml"] = PROFILE.format(name=made.name, settings=json.dumps(dict(self._settings)))
        made.files["macros/all.sql"] = MACROS
        made.files["tests/generic/at_most.sql"] = AT_MOST
        return made

    def _described_by_kind(self) -> list[tuple[str, str]]:
        return [("seeds" if text.startswith("  - name: s") else "models", text) for text in self._described]

    def _seed(self, name: str) -> None:
        chance = self._random
        ids = list(range(1, chance.randint(5, 9)))
        rows = {n: self._row(n) for n in ids}
        self._made.files[f"seeds/{name}.csv"] = _csv(rows.values())
        for n in ids:
            change = chance.random()
            if change < 0.15 and len(rows) > 3:
                del rows[n]
            elif change < 0.4:
                rows[n] = self._row(n)
        for n in range(ids[-1] + 1, ids[-1] + chance.randint(2, 4)):
            rows[n] = self._row(n)
        self._made.later[f"seeds/{name}.csv"] = _csv(rows.values())
        self._made.reads[name] = []
        self._made.incremental.add(name)  # a seed needs no table of its own
        self._describe(name, False)

    def _row(self, number: int) -> list[str]:
        chance = self._random
        day, price = f"2024-01-0{chance.randint(1, 5)}", f"{chance.randint(0, 40) / 4:.2f}"
        return [str(number), chance.choice(GROUPS), str(chance.randint(-9, 30)), price, day]

    def _model(self, name: str, kind: str, read: str | None = None) -> None:
        chance, made = self._random, self._made
        first, second = (read or self._any()), self._any()
        body, reads = self._query(first, second)
        if kind in ("merge", "merge_both"):
            keys = ["id"] if kind == "merge" else ["grp", "day"]
            body = _by_key(body, keys)
        if kind in STORED and kind not in ("table", "overwrite") and chance.random() < 0.7:
            body = _newer(body, chance.choice(["id", "day"]))
        config, folder = self._config(kind, name)
        if config and chance.random() < 0.3:
            self._describe(name, True, config)
        else:
            self._describe(name, True)
            given = ", ".join(f"{key}={value!r}" for key, value in config.items())
            body = f"{{{{ config({given}) }}}}\n{body}" if config else body
        made.files[f"models/{folder}{name}.sql"] = body
        made.reads[name] = reads
        if kind in STORED:
            made.incremental.add(name)

    def _any(self) -> str:
        names = list(self._made.reads)
        return self._random.choice(names[-4:])

    def _config(self, kind: str, name: str) -> tuple[dict[str, object], str]:
        """Return the configuration of a model, and its folder, which may say what it is."""
        chance = self._random
        if kind in ("view", "table") and chance.random() < 0.5:
            return {}, "staging/" if kind == "view" else "marts/"
        if kind in ("view", "table", "ephemeral"):
            return {"materialized": kind}, ""
        config: dict[str, object] = {"materialized": "incremental"}
        config |= {
            "append": {"incremental_strategy": "append"},
            "overwrite": {"incremental_strategy": "insert_overwrite"},
            "overwrite_day": {"incremental_strategy": "insert_overwrite", "partition_by": "day"},
            "overwrite_both": {"incremental_strategy": "insert_overwrite", "partition_by": ["grp", "day"]},
            "merge": {"incremental_strategy": "merge", "unique_key": "id"},
            "merge_both": {"incremental_strategy": "merge", "unique_key": ["grp", "day"]},
        }[kind]
        if chance.random() < 0.2:
            config["alias"] = f"{name}_aliased"
        return config, "marts/" if chance.random() < 0.5 else ""

    def _query(self, first: str, second: str) -> tuple[str, list[str]]:
        """Return a query over one or two relations, and which ones it reads."""
        chance = self._random
        shape = chance.choice(QUERIES)
        text = shape.replace("FIRST", f"{{{{ ref('{first}') }}}}")
        both = "SECOND" in text
        quote = chance.choice("'\"")
        text = text.replace("SECOND", f"{{{{ ref({quote}{second}{quote}) }}}}")
        text = text.replace("CONDITION", chance.choice(CONDITIONS))
        text = text.replace("AMOUNT", chance.choice(AMOUNTS))
        text = text.replace("GROUP_OF", chance.choice(GROUPS_OF)).replace("JOIN", chance.choice(["join", "left join"]))
        text = text.replace("NUMBER", str(chance.randint(-3, 15)))
        return text, [first, second] if both and second != first else [first]

    def _describe(self, name: str, is_model: bool, config: Mapping[str, object] | None = None) -> None:
        """Write the properties of a node: its configuration, and its tests."""
        chance = self._random
        text = f"  - name: {name}\n"
        if config:
            text += f"    config: {json.dumps(config)}\n"
        columns = ""
        for column in COLUMNS:
            tests = [test for test in self._tests_of(column, name) if chance.random() < 0.18]
            if tests:
                columns += f"      - name: {column}\n        data_tests: {json.dumps(tests)}\n"
        text += f"    columns:\n{columns}" if columns else ""
        if columns or config:
            self._described.append(text)

    def _tests_of(self, column: str, name: str) -> list[object]:
        chance = self._random
        earlier = [other for other in self._made.reads if other != name]
        found: list[tuple[str, dict[str, object]]] = [("unique", {}), ("not_null", {})]
        if column == "grp":
            found.append(("accepted_values", {"values": chance.sample(GROUPS, 4)}))
        if column in ("amount", "price"):
            found.append(("at_most", {"most": chance.randint(8, 40)}))
        if column == "id" and earlier:
            found.append(("relationships", {"to": f"ref('{chance.choice(earlier)}')", "field": "id"}))
        tests: list[object] = []
        for kind, arguments in found:
            likely = (kind, column) in (("not_null", "id"), ("not_null", "day"), ("at_most", "price"))
            config: dict[str, object] = {} if likely and chance.random() < 0.6 else {"severity": "warn"}
            if chance.random() < 0.3:
                config["where"] = chance.choice(["amount > 0", "grp <> 'b'", "day >= date'2024-01-02'"])
            entry = dict(arguments) | ({"config": config} if config else {})
            tests.append({kind: entry} if entry else kind)
        return tests

    def _singular_tests(self) -> None:
        chance = self._random
        for n in range(chance.randint(1, 2)):
            names = [name for name in self._made.reads if name.startswith("m")]
            severity = chance.choice(["warn", "warn", "error"])
            text = chance.choice(SINGULAR if severity == "warn" else SINGULAR[:2])
            text = text.replace("FIRST", f"{{{{ ref('{chance.choice(names)}') }}}}")
            text = text.replace("SECOND", f"{{{{ ref('{chance.choice(names)}') }}}}")
            limit = 30 if severity == "error" else chance.randint(0, 20)
            head = f"{{{{ config(severity='{severity}') }}}}\n" if severity == "warn" else ""
            self._made.files[f"tests/singular_{n}.sql"] = head + text.replace("NUMBER", str(limit))


def _by_key(query: str, keys: list[str]) -> str:
    """Return a query of one row for each key, which is never NULL."""
    others = [column for column in COLUMNS if column not in keys]
    chosen = ", ".join([*keys, *(f"max({column}) as {column}" for column in others)])
    wanted = " and ".join(f"{key} is not null" for key in keys)
    return f"select {chosen}\nfrom (\n{query}) as rows\nwhere {wanted}\ngroup by {', '.join(keys)}\n"


def _newer(query: str, column: str) -> str:
    """Return a query that reads only what is newer than its table, in later runs."""
    chosen = ", ".join(COLUMNS)
    return (
        f"select {chosen}\nfrom (\n{query}) as rows\n"
        f"{{% if is_incremental() %}}\nwhere {column} >= (select max({column}) from {{{{ this }}}})\n{{% endif %}}\n"
    )


def _csv(rows: object) -> str:
    lines = [",".join(COLUMNS)]
    lines += [",".join(f'"{cell}"' if "," in cell else cell for cell in row) for row in rows]
    return "\n".join(lines) + "\n"
