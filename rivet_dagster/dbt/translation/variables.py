"""Variables of a dbt project as those of a project of joints, which knows each name once."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from rivet_dagster.dbt.declared import DbtProject
from rivet_dagster.dbt.reading.project import target_values


class Variables:
    """The variables that templates use; all that the project declares for itself are among them."""

    def __init__(self, project: DbtProject) -> None:
        self._project = project
        self._target = target_values(project.target)
        packages = {package.name for package in project.packages}
        declared = project.root.variables
        own = declared.get(project.root.name)
        shared = {name: value for name, value in declared.items() if name not in packages}
        self.values: dict[str, Any] = {
            name: plain(value) for name, value in {**shared, **(own if isinstance(own, Mapping) else {})}.items()
        }
        self._by_package: dict[tuple[str, str], str] = {}

    def use(self, package: str, name: str) -> str:
        """Return the name of a variable as a file of ``package`` sees it. Raise KeyError where it has no value."""
        value = plain(self._project.variable(package, name))
        if (package, name) not in self._by_package:
            known = name
            if name in self.values and self.values[name] != value:
                known = f"{package}_{name}"
            self.values[known] = value
            self._by_package[package, name] = known
        return self._by_package[package, name]

    def knows(self, package: str, name: str) -> bool:
        """Return whether a file of ``package`` sees a variable."""
        try:
            self._project.variable(package, name)
        except KeyError:
            return False
        return True

    def use_environment(self, name: str, default: str | None) -> str:
        """Return the name of a variable for an environment variable, whose value is its default if it has one."""
        value = f"${{{name}}}" if default is None else plain(default)
        known = name.lower()
        while self.values.get(known, value) != value:
            known = f"env_{known}"
        self.values[known] = value
        return known

    def use_target(self, key: str) -> str:
        """Return the name of a variable for a property of dbt's target. Raise KeyError."""
        value, known = plain(self._target[key]), f"target_{key}"
        while self.values.get(known, value) != value:
            known = f"dbt_{known}"
        self.values[known] = value
        return known


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
        return value.replace("${", "$${")
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value
