"""The text of a model or macro, with as few changes as can be: what our templates do not know is replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jinja2 import nodes

from rivet_dagster.dbt.declared import Macro, Node, Place
from rivet_dagster.dbt.macros.scope import MacroScope
from rivet_dagster.dbt.template import Edit, Template, applied, constant
from rivet_dagster.dbt.translation.names import Names
from rivet_dagster.dbt.translation.variables import Variables
from rivet_dagster.errors import nearest

_JINJA = frozenset(
    "range dict namespace cycler joiner lipsum caller loop varargs kwargs super self return true false none".split()
)
_QUERIES = frozenset("run_query statement load_result store_result store_raw_result get_columns_in_relation".split())
_SILENT = frozenset(("log", "print"))
_AT_RUN_TIME = {
    "adapter": "the warehouse",
    "api": "dbt's own classes",
    "builtins": "dbt's own functions",
    "context": "dbt's own state",
    "database": "dbt's target",
    "dbt_version": "dbt's own state",
    "fromjson": "a function of dbt's",
    "fromyaml": "a function of dbt's",
    "graph": "dbt's manifest",
    "invocation_args_dict": "the run at hand",
    "invocation_id": "the run at hand",
    "local_md5": "a function of dbt's",
    "model": "dbt's manifest",
    "modules": "Python's modules",
    "schema": "dbt's target",
    "selected_resources": "the run at hand",
    "set": "a function of dbt's",
    "submit_python_job": "dbt's own functions",
    "thread_id": "the run at hand",
    "tojson": "a function of dbt's",
    "toyaml": "a function of dbt's",
    "zip": "a function of dbt's",
}


@dataclass(frozen=True)
class Problem:
    """What a template does that has no counterpart, and where."""

    message: str
    place: Place

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass
class Found:
    """What is found in a template: the parts to replace, what that changes, what cannot be, and what it uses."""

    edits: list[Edit] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    macros: list[Macro] = field(default_factory=list)
    refs: list[str] = field(default_factory=list)
    asks_incremental: bool = False
    uses_this: bool = False


@dataclass(frozen=True)
class _Use:
    """A name that nothing assigns, with the attributes behind it, and the call of it if it is called."""

    path: tuple[str, ...]
    node: nodes.Expr
    call: nodes.Call | None


class Translator:
    """Finds what to replace in templates; what it finds in a macro is found once.

    ``refused`` are the errors of macros by the names that they have among the joints' macros.
    """

    def __init__(
        self, names: Names, scope: MacroScope, variables: Variables, refused: Mapping[str, str] | None = None
    ) -> None:
        self._names, self._scope, self._variables = names, scope, variables
        self._refused = refused or {}
        self._macros: dict[tuple[str, str, str], Found] = {}

    def of_node(self, node: Node, is_incremental: bool, table: str) -> Found:
        """Return what to replace in the query of a model, snapshot or singular test; ``table`` is what it writes."""
        assert node.template is not None and node.inner is not None
        begin, end = node.inner
        body = list(_bodies(node.template, node.inner))
        reader = _Reader(self, node.template, node.package, node.file, begin, end)
        reader.node, reader.is_incremental, reader.table = node, is_incremental, table
        return reader.read(body)

    def of_macro(self, macro: Macro) -> Found:
        """Return what to replace in a macro."""
        key = (macro.package, macro.block.kind, macro.name)
        if key not in self._macros:
            block = macro.block
            reader = _Reader(self, macro.template, macro.package, macro.file, block.start, block.end)
            self._macros[key] = reader.read([block.node])
        return self._macros[key]

    def refusals(self, macros: Iterable[Macro]) -> list[Problem]:
        """Return the problems of the macros among ``macros`` that do not compile."""
        names = {self._scope.name_of(macro): macro for macro in macros}
        return [
            Problem(f"the macro {name} does not compile: {self._refused[name]}", macro.place)
            for name, macro in names.items()
            if name in self._refused
        ]

    def reached(self, found: Found) -> list[Macro]:
        """Return the macros that a template calls, and those that they call."""
        reached: dict[tuple[str, str, str], Macro] = {}
        waiting = list(found.macros)
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
            edits.append(Edit(block.start + match.start(1), block.start + match.end(2), f"macro {name}"))
            if match[1] != "macro":
                tail = macro.template.text[block.inner[1] : block.end]
                start = block.inner[1] + tail.index(f"end{match[1]}")
                edits.append(Edit(start, start + len(f"end{match[1]}"), "endmacro"))
        return applied(macro.template.text, edits, block.start, block.end)


class _Reader:
    """Reads one template."""

    node: Node | None = None
    is_incremental = False
    table = ""

    def __init__(
        self, translator: Translator, template: Template, package: str, file: str, begin: int, end: int
    ) -> None:
        self._translator, self._template, self._package = translator, template, package
        self._file, self._begin, self._end = file, begin, end
        self._found = Found()

    def read(self, body: Sequence[nodes.Node]) -> Found:
        bound = set(_bound(body))
        for part in body:
            for use in _uses(part):
                if use.path[0] not in bound:
                    self._use(use)
        for part in body:
            for kind in (nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends):
                for found in part.find_all(kind):
                    self._problem(f"holds {{% {kind.__name__.lower()} %}}, which dbt does not have either", found)
        return self._found

    def _use(self, use: _Use) -> None:
        name, attribute = use.path[0], use.path[1] if len(use.path) > 1 else None
        special = getattr(self, f"_{name}", None) if name in _HANDLED else None
        if special is not None:
            special(use)
        elif name in _JINJA and attribute is None:
            return
        elif name in _QUERIES and attribute is None:
            self._problem(f"calls {name}, which needs a query before the query", use.node)
        elif name in _SILENT and self._drop(use):
            return
        elif attribute is not None and name in self._translator._scope.packages:
            self._macro(use, self._translator._scope.find_in(name, attribute))
        else:
            macro = self._translator._scope.find(name, self._package) if attribute is None else None
            if macro is None and name in _AT_RUN_TIME:
                self._problem(f"uses {'.'.join(use.path)}, which is {_AT_RUN_TIME[name]}", use.node)
            else:
                self._macro(use, macro)

    def _macro(self, use: _Use, macro: Macro | None) -> None:
        shown = ".".join(use.path)
        if macro is None:
            hint = nearest(shown, self._translator._scope.known(self._package), listed=False)
            what = f"calls '{shown}'" if use.call is not None else f"uses '{shown}'"
            self._problem(f"{what}, which is no macro of the project or of a package that is installed{hint}", use.node)
            return
        self._found.macros.append(macro)
        name = self._translator._scope.name_of(macro)
        if name != shown:
            called = use.call.node if use.call is not None else use.node
            self._replace(called, name, f"{shown} is the macro {name}")

    # What dbt's own words become

    def _config(self, use: _Use) -> None:
        if use.call is not None and len(use.path) == 1:
            if not self._drop(use):
                self._problem("uses the value of config(...)", use.node)
            return
        if use.call is not None and use.path[1:] in (("get",), ("require",)) and self.node is not None:
            try:
                key, *default = [constant(arg) for arg in use.call.args]
                default += [constant(pair.value) for pair in use.call.kwargs if pair.key == "default"]
            except ValueError:
                pass
            else:
                value = self.node.config.get(str(key), default[0] if default else None)
                if value is None or isinstance(value, str | int | float | list):
                    self._replace(use.call, repr(value), f"config.get('{key}') is its value, {value!r}")
                    return
        self._problem("asks for its own configuration", use.node)

    def _ref(self, use: _Use) -> None:
        if use.call is None:
            return
        try:
            args = [constant(arg) for arg in use.call.args]
            version = next((constant(pair.value) for pair in use.call.kwargs), None)
        except ValueError:
            return  # a name that is computed
        try:
            joint, _ = self._translator._names.ref(self._package, [str(arg) for arg in args], version)
        except ValueError as error:
            self._problem(str(error), use.node)
            return
        self._found.refs.append(joint)
        if len(args) > 1 or version is not None or joint != args[0]:
            start, end = self._template.span(use.call)
            self._replace(use.call, f"ref('{joint}')", f"{self._template.text[start:end]} is ref('{joint}')")

    def _source(self, use: _Use) -> None:
        if use.call is None:
            return
        try:
            args = [str(constant(arg)) for arg in use.call.args]
            args += [str(constant(pair.value)) for pair in use.call.kwargs]
        except ValueError:
            self._problem("computes the name of a source", use.node)
            return
        try:
            joint, _ = self._translator._names.source(*args[:2])
        except (ValueError, TypeError) as error:
            self._problem(
                str(error) if isinstance(error, ValueError) else "gives source something else than two names", use.node
            )
            return
        self._found.refs.append(joint)
        self._replace(use.call, f"ref('{joint}')", f"source('{args[0]}', '{args[1]}') is ref('{joint}')")

    def _var(self, use: _Use) -> None:
        if use.call is None:
            if use.path[1:] != ("has_var",):
                self._problem("uses var without its parentheses", use.node)
            return
        if use.path != ("var",):
            self._problem("asks whether there is a variable", use.node)
            return
        try:
            name = str(constant(use.call.args[0] if use.call.args else use.call.kwargs[0].value))
        except (ValueError, IndexError):
            return  # a name that is computed
        default = len(use.call.args) > 1 or any(pair.key == "default" for pair in use.call.kwargs)
        try:
            known = self._translator._variables.use(self._viewer(name, default), name)
        except KeyError:
            if not default:
                self._problem(f"var('{name}') has no value in dbt_project.yml and no default", use.node)
            elif use.call.kwargs:
                self._positional(use.call, name)
            return
        if known != name or use.call.kwargs:
            self._positional(use.call, known)

    def _viewer(self, name: str, has_default: bool) -> str:
        """Return the package as which a variable is seen: a macro sees those of its callers, here of the project."""
        root = self._translator._names.root
        if self.node is None and (has_default or self._translator._variables.knows(root, name)):
            return root
        return self._package

    def _positional(self, call: nodes.Call, name: str) -> None:
        """Write the call of a variable as our templates read it: a name, and a default without a keyword."""
        given = [*call.args[1:], *(pair.value for pair in call.kwargs if pair.key == "default")]
        try:
            texts = [repr(constant(value)) for value in given[:1]]
        except ValueError:
            self._problem(f"gives var('{name}') a default that is computed, by a keyword", call.node)
            return
        self._replace(call, f"var({', '.join([repr(name), *texts])})", f"the variable is var('{name}')")

    def _env_var(self, use: _Use) -> None:
        try:
            assert use.call is not None
            name, *default = [str(constant(arg)) for arg in use.call.args]
        except (AssertionError, ValueError):
            self._problem("computes the name of an environment variable", use.node)
            return
        known = self._translator._variables.use_environment(name, default[0] if default else None)
        value = f"its default {default[0]!r}" if default else f"${{{name}}}"
        self._unquoted(
            use.call, f"var('{known}')", f"env_var('{name}') is var('{known}'), which is {value}", not default
        )

    def _target(self, use: _Use) -> None:
        if len(use.path) != 2 or use.call is not None:
            self._problem("uses dbt's target as a whole", use.node)
            return
        try:
            known = self._translator._variables.use_target(use.path[1])
        except KeyError:
            self._problem(f"uses target.{use.path[1]}, which the profile does not give", use.node)
            return
        self._replace(use.node, f"var('{known}')", f"target.{use.path[1]} is var('{known}')")

    def _this(self, use: _Use) -> None:
        if len(use.path) == 1:
            self._found.uses_this = True
        elif use.path[1] in ("identifier", "table", "name") and use.call is None and self.node is not None:
            self._replace(use.node, repr(self.table), f"this.{use.path[1]} is '{self.table}'")
        else:
            self._problem(f"uses {'.'.join(use.path)}", use.node)

    def _is_incremental(self, use: _Use) -> None:
        self._found.asks_incremental = True
        if self.node is not None and not self.is_incremental:
            replaced = use.call if use.call is not None else use.node
            self._replace(replaced, "false", "is_incremental() is false: it is no incremental model")

    def _execute(self, use: _Use) -> None:
        self._replace(use.node, "true", "execute is true")

    def _flags(self, use: _Use) -> None:
        if use.path[1:] == ("FULL_REFRESH",):
            self._replace(use.node, "false", "flags.FULL_REFRESH is false")
        else:
            self._problem(f"uses {'.'.join(use.path)}, which is the run at hand", use.node)

    def _project_name(self, use: _Use) -> None:
        self._replace(use.node, repr(self._translator._names.root), "project_name is its value")

    def _run_started_at(self, use: _Use) -> None:
        if len(use.path) > 1:
            self._problem(f"uses {'.'.join(use.path)}: only a run knows when it started", use.node)
        else:
            self._unquoted(use.node, "run_started_at", "run_started_at is a TIMESTAMP, without quotes", True)

    def _exceptions(self, use: _Use) -> None:
        if use.path[1:] == ("warn",):
            self._drop(use)
        # An error is one, too, where our templates reach it.

    def _adapter(self, use: _Use) -> None:
        if use.path[1:] == ("dispatch",) and use.call is not None:
            try:
                given = [constant(arg) for arg in use.call.args]
                given += [constant(pair.value) for pair in use.call.kwargs]
            except ValueError:
                self._problem("computes which macro to dispatch", use.node)
                return
            namespace = str(given[1]) if len(given) > 1 and given[1] is not None else None
            macro = self._translator._scope.dispatched(str(given[0]), namespace, self._package)
            if macro is None:
                self._problem(f"dispatches '{given[0]}', of which there is no variant for Spark", use.node)
                return
            self._found.macros.append(macro)
            name = self._translator._scope.name_of(macro)
            self._replace(use.call, name, f"adapter.dispatch('{given[0]}') is the macro {name}")
        else:
            self._problem(f"uses {'.'.join(use.path)}, which is the warehouse", use.node)

    # Parts of the text

    def _unquoted(self, node: nodes.Expr, text: str, change: str, is_bound: bool) -> None:
        """Replace an expression; a value that is bound as a parameter loses the quotes around its tag."""
        if is_bound and self._template.is_alone(node):
            start, end = self._template.tag(self._template.span(node)[0])
            around = self._template.text[start - 1 : start] + self._template.text[end : end + 1]
            if around in ("''", '""'):
                self._edit(start - 1, end + 1, f"{{{{ {text} }}}}", change, node)
                return
        if text != self._text(node):
            self._replace(node, text, change)

    def _text(self, node: nodes.Expr) -> str:
        start, end = self._template.span(node)
        return self._template.text[start:end]

    def _replace(self, node: nodes.Expr, text: str, change: str) -> None:
        start, end = self._template.span(node)
        self._edit(start, end, text, change, node)

    def _drop(self, use: _Use) -> bool:
        """Remove the tag of a call that writes nothing; return False where its value is used."""
        assert use.node is not None
        start, end = self._template.tag(self._template.span(use.node)[0])
        text = self._template.text
        inner = re.match(r"\{(?:\{|%)[-+]?\s*(do\s+)?", text[start:end])
        if use.call is None or inner is None or start + inner.end() != self._template.span(use.call)[0]:
            return False
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", end)
        last = len(text) if last < 0 else last + 1
        if not text[first:start].strip() and not text[end:last].strip() and text[end - 1] != "\n":
            start, end = max(first, self._begin), min(last, self._end)
        self._found.edits.append(Edit(start, end, ""))
        if use.path[0] != "config":
            self._change(f"{'.'.join(use.path)}(...) is left out", use.node)
        return True

    def _edit(self, start: int, end: int, text: str, change: str, node: nodes.Expr) -> None:
        self._found.edits.append(Edit(start, end, text))
        self._change(change, node)

    def _change(self, change: str, node: nodes.Expr) -> None:
        line = self._template.line(self._template.span(node)[0])
        self._found.changes.append(f"line {line}: {change}")

    def _problem(self, message: str, node: nodes.Node | None) -> None:
        offset = 0 if node is None else _first(node)
        self._found.problems.append(Problem(message, Place(self._file, self._template.line(offset))))


_HANDLED = frozenset(
    "config ref source var env_var target this is_incremental execute flags project_name run_started_at exceptions "
    "adapter".split()
)


def _first(node: nodes.Node) -> int:
    while isinstance(node, nodes.Getattr | nodes.Call):
        node = node.node
    return node.lineno


def _bodies(template: Template, inner: tuple[int, int]) -> Iterator[nodes.Node]:
    """Yield the nodes of the template within a span: of a snapshot its body, else all."""
    if inner == (0, len(template.text)):
        yield from template.tree.body
        return
    for block in template.blocks():
        if block.inner == inner:
            yield from block.node.body


def _bound(body: Sequence[nodes.Node]) -> Iterator[str]:
    """Yield the names that a template assigns, its macros and their arguments among them."""
    for part in body:
        for name in part.find_all(nodes.Name):
            if name.ctx in ("store", "param"):
                yield name.name
        for reference in part.find_all(nodes.NSRef):
            yield reference.name
        for macro in [part] if isinstance(part, nodes.Macro) else part.find_all(nodes.Macro):
            yield macro.name
        if isinstance(part, nodes.Name) and part.ctx == "store":
            yield part.name


def _uses(node: nodes.Node) -> Iterator[_Use]:
    if isinstance(node, nodes.Call) and (path := _path(node.node)):
        yield _Use(path, node.node, node)
        others = (*node.args, *node.kwargs, node.dyn_args, node.dyn_kwargs)
        for other in others:
            if other is not None:
                yield from _uses(other)
    elif path := _path(node):
        assert isinstance(node, nodes.Expr)
        yield _Use(path, node, None)
    else:
        for child in node.iter_child_nodes():
            yield from _uses(child)


def _path(node: nodes.Node) -> tuple[str, ...]:
    if isinstance(node, nodes.Name):
        return (node.name,) if node.ctx == "load" else ()
    if isinstance(node, nodes.Getattr) and (path := _path(node.node)):
        return (*path, node.attr)
    return ()
