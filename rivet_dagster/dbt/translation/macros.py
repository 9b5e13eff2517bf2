"""Which macro a name means, as dbt searches for it, and generic and singular tests rendered as the SQL of checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from rivet_dagster.dbt.declared import DbtProject, Macro
from rivet_dagster.dbt.template import TEST, read_template
from rivet_dagster.dbt.values import UnknownValueError
from rivet_dagster.model.project import MacroFile
from rivet_dagster.project.templating.templates import Templates
from rivet_dagster.project.templating.words import REF, THIS, TemplateError, Word

DBT = "dbt"
"""The package of the macros that every project has."""

OWN_WORDS = frozenset(
    "is_incremental is_scd2 watermark_value this run_started_at ref landing_zone var return range dict namespace "
    "cycler".split()
)
"""The words of our templates; no macro can have such a name."""

_INSTEAD = {
    ("dbt_utils", "date_spine"): "date_spine",
    ("dbt_utils", "slugify"): "slugify",
    ("dbt_date", "date_spine"): "dbt_date_spine",
}
"""Macros of packages that ask the warehouse or Python: those of `DBT` write the same without."""

_ASKS = "asks the warehouse while dbt compiles"
_LEFT_OUT: dict[str, dict[str, str]] = {
    "dbt_utils": {
        _ASKS: "get_column_values get_filtered_columns_in_relation get_query_results_as_dict get_relations_by_pattern "
        "get_relations_by_prefix get_single_value get_tables_by_pattern_sql get_tables_by_prefix_sql nullcheck "
        "nullcheck_table star union_relations unpivot",
        "is Python's time while dbt compiles": "pretty_log_format pretty_time",
    },
    "dbt_date": {
        "is a date of Python": "date datetime",
    },
    "audit_helper": {
        _ASKS: "compare_all_columns compare_and_classify_relation_rows compare_relation_columns compare_relations "
        "compare_which_relation_columns_differ quick_are_relations_identical",
        "is not there for Spark in dbt either": "quick_are_queries_identical",
        "Spark refuses in dbt, too: it counts DISTINCT rows in a window": "compare_and_classify_query_results",
    },
}
"""Macros of packages that are not built in, by reasons."""

_PREFIXES = ("spark__", "default__")


class MacroScope:
    """The macros of a project and its packages, and those that every project has."""

    def __init__(self, project: DbtProject) -> None:
        self._root = project.root.name
        self._dispatch = project.dispatch
        self.packages = (*(package.name for package in project.packages), DBT, *project.built_in)
        self._built_in = frozenset(project.built_in)
        self._macros: dict[tuple[str, str], Macro] = {}
        self._tests: dict[tuple[str, str], Macro] = {}
        self.repeated: list[tuple[Macro, Macro]] = []
        built_in = (macro for package in (DBT, *project.built_in) for macro in builtin_macros(package))
        for macro in (*(macro for package in project.packages for macro in package.macros), *built_in):
            kind = self._tests if macro.block.kind == TEST else self._macros
            first = kind.setdefault((macro.package, macro.name), macro)
            if first is not macro:
                self.repeated.append((macro, first))
        # The first one of a name keeps it: all names are known everywhere in a project of joints.
        self._names: dict[tuple[str, str], str] = {}
        taken = set(OWN_WORDS)
        for package, name in sorted(self._macros, key=lambda key: self.packages.index(key[0])):
            flat = name if name not in taken else f"{package}__{name}"
            taken.add(flat)
            self._names[package, name] = flat

    def __iter__(self) -> Iterable[Macro]:
        return iter(self._macros.values())

    def name_of(self, macro: Macro) -> str:
        """Return the name of a macro among the joints' macros."""
        if macro.block.kind == TEST:
            return f"test_{macro.name}" if macro.package in (self._root, DBT) else f"{macro.package}__test_{macro.name}"
        return self._names[macro.package, macro.name]

    def find(self, name: str, package: str) -> Macro | None:
        """Return the macro that a bare name means in a file of ``package``."""
        for candidate in dict.fromkeys((package, self._root, DBT)):
            macro = self.find_in(candidate, name)
            if macro is not None:
                return macro
        return None

    def find_in(self, package: str, name: str) -> Macro | None:
        """Return the macro ``package.name``; the project may have a variant of its own of one that is built in."""
        if (package, name) in _INSTEAD:
            package, name = DBT, _INSTEAD[package, name]
        return self._variant(package, name) or self._macros.get((package, name))

    def _variant(self, package: str, name: str) -> Macro | None:
        """Return what dbt finds in place of a macro that is built in; it dispatches all of them."""
        if package != DBT and package not in self._built_in:
            return None
        order = (self._root,) if package == DBT else self._dispatch.get(package) or (self._root,)
        names = ((candidate, f"{prefix}{name}") for candidate in order for prefix in _PREFIXES)
        return next((self._macros[key] for key in names if key in self._macros), None)

    def dispatched(self, name: str, namespace: str | None, package: str) -> Macro | None:
        """Return the variant for Spark that ``adapter.dispatch`` finds."""
        if namespace is None:
            order: tuple[str, ...] = (package, self._root, DBT)
        else:
            order = self._dispatch.get(namespace) or (self._root, namespace)
        for candidate in dict.fromkeys(order):
            for prefix in _PREFIXES:
                macro = self._macros.get((candidate, f"{prefix}{name}"))
                if macro is not None:
                    return macro
        return self._macros.get((DBT, name)) if namespace in (None, DBT) else None

    def test(self, name: str, package: str) -> Macro | None:
        """Return the generic test that a name means in a properties file of ``package``; it may hold its namespace."""
        namespace, _, bare = name.rpartition(".")
        candidates = (namespace,) if namespace else (package, self._root, DBT)
        for candidate in dict.fromkeys(candidates):
            macro = self._variant(candidate, f"test_{bare}") if candidate in self._built_in else None
            macro = macro or self._tests.get((candidate, bare)) or self._macros.get((candidate, f"test_{bare}"))
            if macro is not None:
                return macro
        return None

    def is_built_in(self, macro: Macro) -> bool:
        """Return whether a macro is one of dbt's own, or of a package, as it is built in."""
        return macro.package == DBT or macro.package in self._built_in

    def reason_without(self, name: str) -> str | None:
        """Return why there is no ``package.macro``; None where that is not known."""
        package, _, bare = name.rpartition(".")
        reasons = _LEFT_OUT.get(package, {}) if package in self._built_in else {}
        return next((reason for reason, names in reasons.items() if bare in names.split()), None)

    def known(self, package: str) -> list[str]:
        """Return the names that a file of ``package`` can call."""
        names = {name for candidate, name in self._macros if candidate in (package, self._root, DBT)}
        return sorted(
            names | {f"{candidate}.{name}" for candidate, name in self._macros if candidate not in (self._root, DBT)}
        )


@lru_cache(maxsize=8)
def builtin_macros(package: str = DBT) -> tuple[Macro, ...]:
    """Return the macros and generic tests that every dbt project has, or those of a package that are built in."""
    text = (resources.files("rivet_dagster.dbt.macros") / f"{package}.sql").read_text(encoding="utf-8")
    template = read_template(text)
    return tuple(Macro(package, block.name, template, block, package) for block in template.blocks())


@lru_cache(maxsize=1)
def other_macros_of_dbt() -> frozenset[str]:
    """Return the names of the macros of dbt and dbt-spark that have no counterpart here.

    >>> "create_table_as" in other_macros_of_dbt(), "dateadd" in other_macros_of_dbt()
    (True, False)
    """
    text = (resources.files("rivet_dagster.dbt.macros") / "names_of_dbt.txt").read_text(encoding="utf-8")
    return frozenset(text.split())


@dataclass(frozen=True)
class _Names:
    """The meaning of words where only names matter: joints with a prefix, and a run that is incremental or not."""

    prefix: str
    is_incremental: bool

    def holds(self, word: Word) -> bool:
        return self.is_incremental

    def text(self, word: Word) -> str:
        if word.name == REF:
            return f"{self.prefix}{word.argument}"
        return "rivet_this" if word.name == THIS else "TIMESTAMP '2024-01-01 00:00:00'"


class CheckRenderer:
    """Renders templates with translated macros, given as pairs of name and text, and the values of variables."""

    def __init__(self, macros: Iterable[tuple[str, str]], variables: Mapping[str, Any]) -> None:
        self._templates = Templates([MacroFile(f"{name}.sql", text) for name, text in macros], variables)

    def render(self, text: str, prefix: str = "", is_incremental: bool = False) -> str:
        """Return the text of a template, with a prefix before each joint. Raise UnknownValueError."""
        if self._templates.errors:
            raise UnknownValueError(self._templates.errors[0].message)
        try:
            return self._templates.read(text).render(_Names(prefix, is_incremental)).text
        except TemplateError as error:
            raise UnknownValueError(f"the template {error.message}") from None


def literal(value: Any) -> str:
    """Return a value as a template writes it.

    >>> literal({"values": ["it's", 1, True, None]})
    '{\\'values\\': ["it\\'s", 1, True, None]}'
    """
    return repr(value)
