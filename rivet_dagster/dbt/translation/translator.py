"""The text of a model or macro, with as few changes as can be: what our templates do not know is replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rivet_dagster.dbt.declared import DbtNode, Macro
from rivet_dagster.dbt.template import TemplateEdit, apply_edits
from rivet_dagster.dbt.translation.macros import MacroScope
from rivet_dagster.dbt.translation.names import Names
from rivet_dagster.dbt.translation.template_text import TemplateChanges, TemplateFindings, TemplateProblem, unset_names
from rivet_dagster.dbt.translation.variables import DbtVariables
from rivet_dagster.dbt.translation.words import DbtWords


class Translator:
    """Finds what to replace in templates; what it finds in a macro is found once.

    ``refused`` are the errors of macros by the names that they have among the joints' macros.
    """

    def __init__(
        self, names: Names, scope: MacroScope, variables: DbtVariables, refused: Mapping[str, str] | None = None
    ) -> None:
        self._names, self._scope, self._variables = names, scope, variables
        self._refused = refused or {}
        self._macros: dict[tuple[str, str, str], TemplateFindings] = {}

    def of_node(self, node: DbtNode, is_incremental: bool, table: str, in_batches: bool = False) -> TemplateFindings:
        """Return what to replace in the query of a model, snapshot or singular test; ``table`` is what it writes.

        A model that is computed ``in_batches`` reads the rows of its batch of what has a time.
        """
        assert node.template is not None and node.inner is not None
        begin, end = node.inner
        changes = TemplateChanges(node.template, node.file, begin, end)
        body = list(node.template.bodies(node.inner))
        changes.preset(unset_names(body), begin)
        return self._words(changes, node.package, node, is_incremental, table, in_batches).read(body)

    def of_macro(self, macro: Macro) -> TemplateFindings:
        """Return what to replace in a macro."""
        key = (macro.package, macro.block.kind, macro.name)
        if key not in self._macros:
            block = macro.block
            changes = TemplateChanges(macro.template, macro.file, block.start, block.end)
            changes.preset(unset_names([block.node]), block.inner[0])
            self._macros[key] = self._words(changes, macro.package).read([block.node])
        return self._macros[key]

    def refusals(self, macros: Iterable[Macro]) -> list[TemplateProblem]:
        """Return the problems of the macros among ``macros`` that do not compile."""
        names = {self._scope.name_of(macro): macro for macro in macros}
        return [
            TemplateProblem(f"the macro {name} does not compile: {self._refused[name]}", macro.location)
            for name, macro in names.items()
            if name in self._refused
        ]

    def silent_problems(self, macros: Iterable[Macro]) -> list[TemplateProblem]:
        """Return the problems in macros that our templates would pass over, with another meaning."""
        return [problem for macro in macros for problem in self.of_macro(macro).problems if not problem.fails]

    def reached(self, findings: TemplateFindings) -> list[Macro]:
        """Return the macros that a template calls, and those that they call."""
        reached: dict[tuple[str, str, str], Macro] = {}
        waiting = list(findings.macros)
        while waiting:
            macro = waiting.pop()
            key = (macro.package, macro.block.kind, macro.name)
            if key not in reached:
                reached[key] = macro
                waiting += self.of_macro(macro).macros
        return list(reached.values())

    def text_of_macro(self, macro: Macro) -> str:
        """Return a macro as our templates read it; a generic test becomes a macro, too."""
        block, name = macro.block, self._scope.name_of(macro)
        edits = list(self.of_macro(macro).edits)
        head = macro.template.text[block.start : block.inner[0]]
        match = re.match(r"\{%[-+]?\s*(macro|test|data_test)\s+(\w+)", head)
        if match is not None and (match[1] != "macro" or match[2] != name):
            edits.append(TemplateEdit(block.start + match.start(1), block.start + match.end(2), f"macro {name}"))
            if match[1] != "macro":
                tail = macro.template.text[block.inner[1] : block.end]
                start = block.inner[1] + tail.index(f"end{match[1]}")
                edits.append(TemplateEdit(start, start + len(f"end{match[1]}"), "endmacro"))
        return apply_edits(macro.template.text, edits, block.start, block.end)

    def _words(self, changes: TemplateChanges, package: str, *of_node: Any) -> DbtWords:
        return DbtWords(self._names, self._scope, self._variables, changes, package, *of_node)
