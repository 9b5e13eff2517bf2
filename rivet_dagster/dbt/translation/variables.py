"""Variables of a dbt project as those of a project of joints, which knows each name once."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping, Set
from typing import Any

from rivet_dagster.dbt.declared import DbtLocation, DbtProject, Package
from rivet_dagster.dbt.files import line_of
from rivet_dagster.dbt.reading.project import target_values
from rivet_dagster.dbt.reading.project_file import PROJECT_FILE
from rivet_dagster.dbt.report import CHANGED, LEFT_OUT, ReportEntry
from rivet_dagster.dbt.values import (
    NOT_READ,
    ImportEnvironment,
    UnknownValueError,
    escape,
    refer_to_environment,
    reference,
    render_value,
    value_context,
)
from rivet_dagster.secrets.variables import references

_CALLED = re.compile(r"\bvar\(\s*(?:'([^']*)'|\"([^\"]*)\"|(\S))")


class DbtVariables:
    """The variables that templates use; all that the project declares for itself are among them.

    ``notes`` is what is told of those that have another name here, or no value. ``imported`` are those that have the
    values of the import's ``environment``, in place of ``${NAME}``.
    """

    def __init__(
        self, project: DbtProject, environment: ImportEnvironment = NOT_READ, imported: Set[str] = frozenset()
    ) -> None:
        self._project, self._environment, self._imported = project, environment, imported
        self._target = target_values(project.target)
        self._values: dict[str, Any] = {}
        self.notes: list[ReportEntry] = []
        self._by_package: dict[tuple[str, str], str] = {}
        packages = {package.name for package in project.packages}
        root = project.root
        in_project = root.variables.get(root.name)
        declared = {name: root.variables for name in root.variables if name not in packages}
        declared |= dict.fromkeys(in_project, in_project) if isinstance(in_project, Mapping) else {}
        for name, holder in sorted(declared.items(), key=lambda each: variable_name(each[0]) != each[0]):
            location = DbtLocation(PROJECT_FILE, line_of(holder, name))
            try:
                known = self._named(
                    variable_name(name), f"var_{variable_name(name)}", self._known(root, holder[name], location)
                )
            except UnknownValueError as error:
                self.notes.append(ReportEntry(name, location, LEFT_OUT, reasons=(str(error),), kind="variable"))
                continue
            self._by_package[root.name, name] = known
            if known != name:
                self.notes.append(ReportEntry(name, location, CHANGED, reasons=(f"it is '{known}'",), kind="variable"))

    @property
    def values(self) -> dict[str, Any]:
        """The values by name, with ``${NAME}`` for what only a run knows."""
        return {name: self.at_import(name) if name in self._imported else v for name, v in self._values.items()}

    def at_import(self, name: str) -> Any:
        """Return the value that a variable has at the time of the import. Raise UnknownValueError."""
        value = self._values[name]
        return plain(self._environment.expand(value, DbtLocation(PROJECT_FILE))) if is_bound(value) else value

    def importable(self) -> frozenset[str]:
        """Return the variables that only a run knows, and of which the import knows a value, too."""
        known = set()
        for name, value in self.values.items():
            if is_bound(value) and self._environment.knows(references(value)):
                known.add(name)
        return frozenset(known)

    def use(self, package: str, name: str) -> str:
        """Return the name of a variable as a file of ``package`` sees it. Raise KeyError where it has no value."""
        if (package, name) not in self._by_package:
            value = self._project.variable(package, name)
            viewer = next((each for each in self._project.packages if each.name == package), self._project.root)
            wanted = variable_name(name)
            try:
                known = self._known(viewer, value)
            except UnknownValueError:
                raise KeyError(name) from None
            self._by_package[package, name] = self._named(wanted, variable_name(f"{package}_{wanted}"), known)
        return self._by_package[package, name]

    def knows(self, package: str, name: str) -> bool:
        """Return whether a file of ``package`` sees a variable."""
        try:
            self._project.variable(package, name)
        except KeyError:
            return False
        return True

    def use_environment(self, name: str, default: str | None) -> str:
        """Return the name of a variable for an environment variable, whose value is its default if it has one.

        Raise ValueError for a name that no ``${NAME}`` can have.
        """
        value = plain(default) if default is not None else reference(name)
        wanted = variable_name(name.lower())
        return self._named(wanted, f"env_{wanted}", value)

    def use_target(self, key: str) -> str:
        """Return the name of a variable for a property of dbt's target. Raise KeyError."""
        value = self._target[key]
        if isinstance(value, Mapping | list):
            raise KeyError(key)
        return self._named(f"target_{key}", f"dbt_target_{key}", plain(value))

    def written(self, texts: Iterable[str]) -> dict[str, Any]:
        """Return the variables of a project of these files: of the environment only those that a file names."""
        named = {match.group(1, 2, 3) for text in texts for match in _CALLED.finditer(text)}
        names = {single or double for single, double, _ in named}
        is_computed = any(other for _, _, other in named)
        return {
            name: value
            for name, value in self.values.items()
            if is_computed or name in names or (name in self._declared() and not is_bound(value))
        }

    def imported_in(self, texts: Iterable[str]) -> dict[str, Any]:
        """Return the values of the import for what templates name that are rendered now, but only a run knows."""
        named = {match[1] or match[2] for text in texts for match in _CALLED.finditer(text)}
        return {name: unescape_value(self.at_import(name)) for name in sorted(self.importable() & named)}

    def bound_in(self, texts: Iterable[str]) -> list[str]:
        """Return what is wrong with templates that are rendered now, but name what only a run knows."""
        named = {match[1] or match[2] for text in texts for match in _CALLED.finditer(text)}
        return [
            f"it depends on the environment variable {references(value)[0]}, which is not read"
            for name, value in self.values.items()
            if name in named and is_bound(value)
        ]

    def literal(self) -> dict[str, Any]:
        """Return the values that are known without the environment."""
        return {name: unescape_value(value) for name, value in self.values.items() if not is_bound(value)}

    def _declared(self) -> set[str]:
        root = self._project.root.name
        return {known for (package, _), known in self._by_package.items() if package == root}

    def _named(self, wanted: str, otherwise: str, value: Any) -> str:
        """Give a value the name ``wanted``, or another one if that is the name of another value."""
        known, number = wanted, 1
        while known in self._values and not _same(self._values[known], value):
            known = otherwise if number == 1 else f"{otherwise}_{number}"
            number += 1
        self._values[known] = value
        return known

    def _known(self, package: Package, value: Any, location: DbtLocation | None = None) -> Any:
        """Return a value; a text is a template, in which a variable of the environment becomes a reference."""
        if not isinstance(value, str) or not ("{{" in value or "{%" in value):
            return plain(value)
        parts = refer_to_environment(value)
        if parts is not None:
            return parts

        def variable(name: str) -> Any:
            return self._project.variable(package.name, name)

        context = value_context(variable, self._target, self._environment)
        return plain(str(render_value(value, context, location)))


def variable_name(name: str) -> str:
    """Return the nearest name that a variable can have.

    >>> variable_name("start-date"), variable_name("2x"), variable_name("day")
    ('start_date', 'v_2x', 'day')
    """
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return cleaned if cleaned[:1].isalpha() or cleaned[:1] == "_" else f"v_{cleaned}"


def is_bound(value: Any) -> bool:
    """Return whether a value refers to the environment, so that only a run knows it."""
    return isinstance(value, str) and bool(references(value))


def _same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)  # 1, 1.0 and true are equal for Python


def unescape_value(value: Any) -> Any:
    """Return a value of rivet.yaml as templates see it: ``$${`` is a literal ``${``."""
    if isinstance(value, Mapping):
        return {key: unescape_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unescape_value(item) for item in value]
    return value.replace("$${", "${") if isinstance(value, str) else value


def plain(value: Any) -> Any:
    """Return a value as YAML's core schema has it: dates are texts.

    >>> plain({"since": datetime.date(2024, 1, 31), "days": (1, 2)})
    {'since': '2024-01-31', 'days': [1, 2]}
    """
    if isinstance(value, datetime.date):
        return value.isoformat() if type(value) is datetime.date else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return value if value is None or is_number else plain(str(value))
