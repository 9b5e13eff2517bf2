"""dbt's unit tests as tests of the new project: given rows, and the rows that a joint makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.dbt.declared import DbtNode, DbtProject, UnitTest
from rivet_dagster.dbt.files import read_file
from rivet_dagster.dbt.report import CHANGED, LEFT_OUT, ReportEntry, TranslatedUnitTest, disabled_entry
from rivet_dagster.dbt.translation.annotations import yaml_lines
from rivet_dagster.dbt.translation.names import Names
from rivet_dagster.dbt.translation.strategy import LeftOutError
from rivet_dagster.project.text_file import TextError

_FOLDER = "tests"
_KIND = "unit_test"


class UnitTests:
    """Translates the unit tests of a project whose joints are compiled as ``assembly``; ``root`` is its directory."""

    def __init__(self, root: Path, project: DbtProject, names: Names, assembly: CompiledAssembly) -> None:
        self._root, self._project, self._names = root, project, names
        self._joints = {joint.name: joint for joint in assembly.joints}
        self._taken: set[str] = set()

    def translate(self) -> Iterator[TranslatedUnitTest]:
        """Yield the tests: of a model with versions one for each that is not excluded."""
        for package in self._project.packages:
            for test in package.unit_tests:
                if not test.config.is_enabled:
                    yield TranslatedUnitTest(disabled_entry(test.name, test.location, "unit test"))
                    continue
                models: list[DbtNode | None] = [*self._models(test)]
                for node in models or [None]:
                    try:
                        yield self._translate(test, node)
                    except (LeftOutError, ValueError) as error:
                        reasons = (str(error),)
                        yield TranslatedUnitTest(
                            ReportEntry(test.name, test.location, LEFT_OUT, reasons=reasons, kind=_KIND)
                        )

    def _models(self, test: UnitTest) -> list[DbtNode]:
        same = [
            node
            for (package, _), node in self._names.nodes.items()
            if (package, node.name) == (test.package, test.model)
        ]
        include, exclude = (test.versions.get(key) for key in ("include", "exclude"))
        included = [str(v) for v in include] if isinstance(include, list) else None
        excluded = [str(v) for v in exclude] if isinstance(exclude, list) else []
        return [
            node
            for node in same
            if (included is None or str(node.version) in included) and str(node.version) not in excluded
        ]

    def _translate(self, test: UnitTest, node: DbtNode | None) -> TranslatedUnitTest:
        if node is None:
            raise LeftOutError(f"there is no model '{test.model}'")
        target = self._names.joint(node)
        if target not in self._joints:
            raise LeftOutError(f"'{target}' is left out")
        is_later = self._is_incremental(test.overrides)
        files: dict[str, str] = {}
        path = self._path(test.name if node.version is None else f"{test.name}_v{node.version}")
        keys: dict[str, Any] = {"name": test.name, "target": target}
        inputs: dict[str, Any] = {}
        this = None
        for number, entry in enumerate(test.given, 1):
            called = str(entry.get("input")).strip()
            joint = target if called == "this" else self._names.of_call(called, test.package)
            rows = self._rows(entry, joint, test.package, f"{path}_{number}", files)
            if called == "this":
                this = rows
            else:
                inputs[joint] = rows
        keys |= {"inputs": inputs} if inputs else {}
        if is_later and getattr(self._joints[target], "sql_incremental", None) is not None:
            keys["incremental"] = {} if this is None else {"this": this}
        expected = self._rows(test.expect, target, test.package, f"{path}_expected", files)
        keys["expected"] = expected
        others = self._others(target, expected, files)
        keys |= {"options": {"ignore_columns": others}} if others else {}
        comment = "".join(f"# {line}\n" for line in test.description.splitlines())
        file = f"{_FOLDER}/{path}.test.yaml"
        told = (f"it is the test {file}", *test.notes)
        entry_of = ReportEntry(test.name, test.location, CHANGED, target, told, kind=_KIND)
        return TranslatedUnitTest(entry_of, {file: comment + yaml_lines(keys), **files})

    def _is_incremental(self, overrides: Mapping[str, Any]) -> bool:
        """Return whether the test is one of an incremental run. Raise LeftOutError for any other override."""
        macros = overrides.get("macros")
        macros = dict(macros) if isinstance(macros, Mapping) else {}
        is_incremental = macros.pop("is_incremental", False)
        others = [*macros, *(key for key, value in overrides.items() if key != "macros" and value)]
        if others:
            raise LeftOutError(f"its overrides of {', '.join(others)} have no counterpart")
        return str(is_incremental).lower() == "true"

    def _rows(
        self, given: Mapping[str, Any], joint: str, package: str, name: str, files: dict[str, str]
    ) -> dict[str, Any]:
        """Return rows as a test has them; those of CSV texts become files. Raise LeftOutError."""
        kind, rows, fixture = str(given.get("format") or "dict"), given.get("rows"), given.get("fixture")
        if kind == "csv" and (isinstance(rows, str) or fixture is not None):
            file = f"fixtures/{self._fixture(package, str(fixture), name, rows, files)}.csv"
            return {"file": file}
        if kind != "dict" or fixture is not None:
            raise LeftOutError(f"rows in the format {kind} have no counterpart")
        if rows is None:
            raise LeftOutError(f"names no rows of {joint}: give those of the seed")
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise LeftOutError("its rows are no list of mappings")
        if not rows:
            return {"columns": self._columns(joint), "rows": []} if self._columns(joint) else {"rows": []}
        types = self._types(joint)
        spelled = {name.lower(): name for name in self._columns(joint)}
        lower = ({str(name).lower(): value for name, value in row.items()} for row in rows)
        return {"rows": [{spelled.get(k, k): _fit(v, types.get(k)) for k, v in row.items()} for row in lower]}

    def _fixture(self, package: str, fixture: str, name: str, rows: Any, files: dict[str, str]) -> str:
        if isinstance(rows, str):
            lines = (line.strip() for line in rows.strip().splitlines())
            files[f"{_FOLDER}/fixtures/{name}.csv"] = "".join(f"{line}\n" for line in lines)
            return name
        fixtures = next(each.fixtures for each in self._project.packages if each.name == package)
        if fixture not in fixtures:
            raise LeftOutError(f"there is no fixture '{fixture}'")
        clean = re.sub(r"[^\w-]", "_", fixture)
        try:
            files[f"{_FOLDER}/fixtures/{clean}.csv"] = read_file(self._root / fixtures[fixture])
        except TextError as error:
            raise LeftOutError(f"the fixture '{fixture}' cannot be read: {error}") from None
        return clean

    def _others(self, target: str, expected: Mapping[str, Any], files: Mapping[str, str]) -> list[str]:
        """Return the columns of the joint that the expected rows do not name: dbt does not compare them."""
        if "file" in expected:
            head = files[f"{_FOLDER}/{expected['file']}"].splitlines()[:1]
            named = {name.strip().strip('"').lower() for line in head for name in line.split(",")}
        else:
            named = {str(name).lower() for row in expected["rows"] for name in row}
            named |= {str(name).lower() for name in expected.get("columns", ())}
        return [name for name in self._columns(target) if name.lower() not in named]

    def _columns(self, joint: str) -> list[str]:
        compiled = self._joints.get(joint)
        schema = compiled.schema if compiled is not None else None
        return [column.name for column in schema or ()]

    def _types(self, joint: str) -> dict[str, str]:
        compiled = self._joints.get(joint)
        schema = compiled.schema if compiled is not None else None
        return {column.name.lower(): str(column.type).lower() for column in schema or ()}

    def _path(self, name: str) -> str:
        clean = re.sub(r"[^\w-]", "_", name)
        unique, number = clean, 1
        while unique.lower() in self._taken:
            number += 1
            unique = f"{clean}_{number}"
        self._taken.add(unique.lower())
        return unique


def _fit(value: Any, type_: str | None) -> Any:
    """Return a value as a test writes it for a column: dbt casts it to the type of the column.

    >>> _fit(1, "string"), _fit(True, "string"), _fit(1, "bigint"), _fit(None, "string")
    ('1', 'true', 1, None)
    """
    if value is None or isinstance(value, Mapping | list):
        return value
    if type_ == "string" and not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value if isinstance(value, str | int | float) else str(value)
