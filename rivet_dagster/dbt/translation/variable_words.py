"""Translation of the words that give values: variables, those of the environment, and dbt's target."""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import nodes

from rivet_dagster.dbt.declared import Node
from rivet_dagster.dbt.macros.scope import MacroScope
from rivet_dagster.dbt.template import constant
from rivet_dagster.dbt.translation.names import Names
from rivet_dagster.dbt.translation.template_changes import Changes
from rivet_dagster.dbt.translation.template_uses import Use
from rivet_dagster.dbt.translation.variables import Variables


@dataclass(frozen=True)
class VariableWords:
    """The words of one template of ``package``, of which ``changes`` take what they become.

    ``node`` is the model, snapshot or test that the template belongs to, None for a macro; ``table`` is what it writes.
    """

    names: Names
    scope: MacroScope
    variables: Variables
    changes: Changes
    package: str
    node: Node | None = None
    is_incremental: bool = False
    table: str = ""

    def _var(self, use: Use) -> None:
        if use.call is None:
            if use.path[1:] != ("has_var",):
                self.changes.problem("uses var without its parentheses", use.node)
            return
        if use.path != ("var",):
            self.changes.problem("asks whether there is a variable", use.node)
            return
        try:
            name = str(constant(use.call.args[0] if use.call.args else use.call.kwargs[0].value))
        except (ValueError, IndexError):
            return  # a name that is computed
        default = len(use.call.args) > 1 or any(pair.key == "default" for pair in use.call.kwargs)
        try:
            known = self.variables.use(self._viewer(name, default), name)
        except KeyError:
            if not default:
                self.changes.problem(f"var('{name}') has no value in dbt_project.yml and no default", use.node, True)
            elif use.call.kwargs:
                self._positional(use.call, name)
            return
        if known != name or use.call.kwargs:
            self._positional(use.call, known)

    def _viewer(self, name: str, has_default: bool) -> str:
        """Return the package as which a variable is seen: a macro sees those of its callers, here of the project."""
        root = self.names.root
        if self.node is None and (has_default or self.variables.knows(root, name)):
            return root
        return self.package

    def _positional(self, call: nodes.Call, name: str) -> None:
        """Write the call of a variable as our templates read it: a name, and a default without a keyword."""
        given = [*call.args[1:], *(pair.value for pair in call.kwargs if pair.key == "default")]
        try:
            texts = [repr(constant(value)) for value in given[:1]]
        except ValueError:
            self.changes.problem(f"gives var('{name}') a default that is computed, by a keyword", call.node)
            return
        self.changes.replace(call, f"var({', '.join([repr(name), *texts])})", f"the variable is var('{name}')")

    def _env_var(self, use: Use) -> None:
        try:
            assert use.call is not None
            name, *default = [str(constant(arg)) for arg in use.call.args]
        except (AssertionError, ValueError):
            self.changes.problem("computes the name of an environment variable", use.node)
            return
        try:
            known = self.variables.use_environment(name, default[0] if default else None)
        except ValueError as error:
            self.changes.problem(str(error), use.node)
            return
        value = f"its default {default[0]!r}" if default else f"${{{name}}}"
        self.changes.unquoted(
            use.call, f"var('{known}')", f"env_var('{name}') is var('{known}'), which is {value}", not default
        )

    def _target(self, use: Use) -> None:
        if len(use.path) != 2 or use.call is not None:
            self.changes.problem("uses dbt's target as a whole", use.node)
            return
        try:
            known = self.variables.use_target(use.path[1])
        except KeyError:
            self.changes.problem(f"uses target.{use.path[1]}, which the profile does not give", use.node)
            return
        self.changes.replace(use.node, f"var('{known}')", f"target.{use.path[1]} is var('{known}')")
