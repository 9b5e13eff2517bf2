"""The function of a Python joint, located in its source file: no module of the user is imported."""

from __future__ import annotations

import ast
import hashlib
import os.path
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from rivet_dagster.cache import CompileCache
from rivet_dagster.errors import nearest
from rivet_dagster.model.project import PythonFunction
from rivet_dagster.project.text_file import TextError, UnreadableError, read_text

_FUNCTION = re.compile(r"(\w+(?:\.\w+)*):([^\W\d]\w*)")
_Result = TypeVar("_Result")
_Def = ast.FunctionDef | ast.AsyncFunctionDef


class FunctionError(TextError):
    """The reason for which a joint has no function; ``file`` is None for an error in the joint's own declaration."""

    def __init__(self, message: str, file: str | None = None, line: int | None = None) -> None:
        super().__init__(message, line)
        self.file = file


class PythonSources:
    """The Python files below the project's root, each parsed at most once."""

    def __init__(self, root: Path, cache: CompileCache) -> None:
        self._root = root
        self._cache = cache
        self._texts: dict[str, str | FunctionError] = {}
        self._modules: dict[str, ast.Module | FunctionError] = {}

    def find(self, function: str, file: str | None = None) -> PythonFunction:
        """Return the function ``module:name``, in ``file`` if that is given. Raise FunctionError."""
        if file is None:
            match = _FUNCTION.fullmatch(function)
            if match is None:
                raise FunctionError(f"`function` is written `package.module:name`, not '{function}'")
            file = self._file_of(match[1])
        name = function.rpartition(":")[2]
        text = _or_raise(self._text(file))
        facts = self._cache.get("function", f"{name}\n{text}")
        if facts is None:
            definition = _definition(_or_raise(self._module(file, text)), name, file)
            facts = definition.lineno, _parameters(definition, file), _digest(definition)
            self._cache.put("function", f"{name}\n{text}", facts)
        line, parameters, digest = facts
        return PythonFunction(file, name, line, tuple(parameters), digest)

    def _file_of(self, module: str) -> str:
        path = module.replace(".", "/")
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if os.path.isfile(self._root / file):
                return file
        raise FunctionError(f"there is neither {path}.py nor {path}/__init__.py in the project")

    def _text(self, file: str) -> str | FunctionError:
        if file not in self._texts:
            try:
                self._texts[file] = read_text(self._root / file)
            except UnreadableError as error:
                self._texts[file] = FunctionError(error.message, file, error.line)
        return self._texts[file]

    def _module(self, file: str, text: str) -> ast.Module | FunctionError:
        if file not in self._modules:
            self._modules[file] = _parsed(text, file)
        return self._modules[file]


def _or_raise(result: _Result | FunctionError) -> _Result:
    if isinstance(result, FunctionError):
        raise result
    return result


def _parsed(text: str, file: str) -> ast.Module | FunctionError:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except SyntaxError as error:
            return FunctionError(f"the Python is wrong: {error.msg}", file, error.lineno)
        except (ValueError, RecursionError, MemoryError):
            return FunctionError("the Python cannot be parsed", file)


def _definition(module: ast.Module, name: str, file: str) -> ast.FunctionDef:
    definitions = {node.name: node for node in module.body if isinstance(node, _Def)}
    if name not in definitions:
        message = f"{file} defines no function '{name}' at its top level{nearest(name, definitions)}"
        raise FunctionError(message)
    definition = definitions[name]
    if isinstance(definition, ast.AsyncFunctionDef):
        raise FunctionError(
            f"the function '{name}' is async; a joint's function returns its rows", file, definition.lineno
        )
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own_nodes(definition)):
        raise FunctionError(
            f"the function '{name}' is a generator; a joint's function returns its rows", file, definition.lineno
        )
    return definition


def _own_nodes(definition: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of the function's body, except those of functions and classes inside it."""
    nodes: list[ast.AST] = [*definition.body]
    while nodes:
        node = nodes.pop()
        yield node
        if not isinstance(node, _Def | ast.Lambda | ast.ClassDef):
            nodes.extend(ast.iter_child_nodes(node))


def _parameters(definition: ast.FunctionDef, file: str) -> tuple[str, ...]:
    """Return the parameters without a default; each is an upstream joint."""
    arguments = definition.args
    for extra, stars in ((arguments.vararg, "*"), (arguments.kwarg, "**")):
        if extra is not None:
            message = f"the function '{definition.name}' takes {stars}{extra.arg}; name each upstream joint instead"
            raise FunctionError(message, file, definition.lineno)
    by_position = [*arguments.posonlyargs, *arguments.args]
    by_position = by_position[: len(by_position) - len(arguments.defaults)]
    by_name = [arg for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
    return tuple(argument.arg for argument in (*by_position, *by_name))


def _digest(definition: ast.FunctionDef) -> str:
    """Return a hash of the syntax tree, equal in all versions of Python: no positions, docstrings or empty fields."""
    parts: list[str] = []
    waiting: list[object] = [definition]
    while waiting:
        item = waiting.pop()
        if isinstance(item, ast.AST):
            parts.append(f"{type(item).__name__}(")
            waiting.append(_Mark(")"))
            for name, value in reversed(list(ast.iter_fields(item))):
                if value not in (None, []) and name not in ("kind", "type_comment"):
                    waiting += [_without_docstring(item, name, value), _Mark(f"{name}=")]
        elif isinstance(item, list):
            parts.append("[")
            waiting += [_Mark("]"), *reversed(item)]
        else:
            parts.append(item if isinstance(item, _Mark) else f"{type(item).__name__}:{item!r},")
    return hashlib.sha256("".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


class _Mark(str):
    """A literal piece of the text that is hashed."""


def _without_docstring(node: ast.AST, name: str, value: object) -> object:
    if name == "body" and isinstance(value, list) and isinstance(node, _Def | ast.ClassDef):
        return value[1:] if ast.get_docstring(node, clean=False) is not None else value
    return value
