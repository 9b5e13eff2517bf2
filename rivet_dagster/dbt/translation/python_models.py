"""Python models of dbt as Python joints: the file as it is, and a function that gives ``model`` what dbt gives it."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rivet_dagster.dbt.declared import Config, DbtLocation, DbtNode
from rivet_dagster.dbt.translation.names import Names
from rivet_dagster.dbt.translation.strategy import INCREMENTAL, TABLE, LeftOutError

_RUNNER = '''

def transform({parameters}):
    """Give `model` joints in place of dbt's relations."""
    from types import SimpleNamespace

    from pyspark.sql import SparkSession

    joints = {{{joints}}}

    def read(*names, **version):
        return joints[*names, *version.values()].to_spark()

    def config(**settings):
        return None

    config.get = {settings}.get
    session = next((joint.to_spark().sparkSession for joint in joints.values()), None) or SparkSession.active()
    rows = model(SimpleNamespace(ref=read, source=read, config=config, is_incremental=False), session)
    return rows.to_spark() if hasattr(rows, "to_spark") else rows'''

_USED = frozenset(("ref", "source", "config", "is_incremental"))
_PLAIN = (str, int, float, bool, list, type(None))


def config_of_python(config: Config) -> Config:
    """Return the configuration of a Python model, which is a table if it says nothing else. Raise LeftOutError."""
    materialized = config.get("materialized", TABLE)
    if materialized not in (TABLE, INCREMENTAL):
        raise LeftOutError(f"a Python model is a table or incremental, not '{materialized}'", "materialized")
    return replace(config, values={**config.values, "materialized": materialized})


def translate_python(node: DbtNode, names: Names) -> tuple[str, tuple[str, ...], list[str]]:
    """Return the text of a Python joint, the joints that it reads, and what is told of it. Raise LeftOutError."""
    assert node.code is not None
    try:
        tree = ast.parse(node.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LeftOutError(f"Python cannot read it: {error}") from None
    top = [each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    function = next((each for each in top if each.name == "model" and isinstance(each, ast.FunctionDef)), None)
    if function is None or len(function.args.args) != 2:
        raise LeftOutError("it has no function model(dbt, session)")
    if any(each.name == "transform" for each in top):
        raise LeftOutError("it has a function transform, which is the name of the joint's own: rename it")
    dbt = function.args.args[0].arg
    relations: dict[tuple[Any, ...], str] = {}
    attributes = list(_attributes(function, dbt))
    named = [each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == dbt]
    if len(named) > len(attributes):
        raise LeftOutError(f"it uses {dbt} otherwise than by its attributes, so that what it reads is not known")
    for attribute in attributes:
        location = DbtLocation(node.file, attribute.lineno)
        if attribute.attr not in _USED:
            raise LeftOutError(f"{location}: {dbt}.{attribute.attr} has no counterpart")
        if attribute.attr == "is_incremental" and node.config.get("materialized") == INCREMENTAL:
            raise LeftOutError(f"{location}: a Python joint does not know whether its run is incremental")
    for call in sorted(_calls(function, dbt, ("ref", "source")), key=lambda call: (call.lineno, call.col_offset)):
        names_of_call, joint = _relation(call, node, names)
        relations[names_of_call] = joint
    asked = asked_settings(node.code)
    joints = tuple(dict.fromkeys(relations.values()))
    refused = next((joint for joint in joints if keyword.iskeyword(joint)), None)
    if refused is not None:
        raise LeftOutError(f"it reads '{refused}', which is no name of a parameter in Python")
    runner = _RUNNER.format(
        parameters=", ".join(joints),
        joints=", ".join(f"{key!r}: {joint}" for key, joint in relations.items()),
        settings={key: value for key in asked if isinstance(value := node.config.get(key), _PLAIN)},
    )
    notes = ["its rows are those of model(dbt, session), which the function transform calls"]
    packages = node.config.get("packages")
    if packages:
        notes.append(f"its packages are not installed by a run: {', '.join(map(str, packages))}")
    return f"{node.code.rstrip()}\n{runner}", joints, notes


def asked_settings(code: str) -> list[str]:
    """Return the settings for which a Python model asks by ``dbt.config.get``. Raise LeftOutError for a computed one.

    >>> asked_settings("def model(dbt, session):\\n    return dbt.config.get('factor', 1)")
    ['factor']
    """
    asked = []
    for call in ast.walk(ast.parse(code)):
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(".config.get"):
            if not call.args or not isinstance(call.args[0], ast.Constant):
                raise LeftOutError("it computes the name of a setting")
            asked.append(str(call.args[0].value))
    return list(dict.fromkeys(asked))


def _attributes(function: ast.FunctionDef, dbt: str) -> Iterator[ast.Attribute]:
    for each in ast.walk(function):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == dbt:
            yield each


def _calls(function: ast.FunctionDef, dbt: str, attributes: tuple[str, ...]) -> Iterator[ast.Call]:
    for each in ast.walk(function):
        of = each.func if isinstance(each, ast.Call) else None
        if (
            isinstance(of, ast.Attribute)
            and isinstance(of.value, ast.Name)
            and of.value.id == dbt
            and of.attr in attributes
        ):
            assert isinstance(each, ast.Call)
            yield each


def _relation(call: ast.Call, node: DbtNode, names: Names) -> tuple[tuple[Any, ...], str]:
    """Return the arguments of a call of ref or source, and the joint that it means. Raise LeftOutError."""
    assert isinstance(call.func, ast.Attribute)
    location = DbtLocation(node.file, call.lineno)
    given = [*call.args, *(pair.value for pair in call.keywords)]
    if not all(isinstance(each, ast.Constant) for each in given):
        raise LeftOutError(f"{location}: names of relations must be constants")
    values = tuple(each.value for each in given if isinstance(each, ast.Constant))
    positional = [str(value) for value in values[: len(call.args)]]
    try:
        if call.func.attr == "source":
            return values, names.source(*positional)[0]
        return values, names.ref(node.package, positional, values[-1] if call.keywords else None)[0]
    except (ValueError, TypeError) as error:
        raise LeftOutError(f"{location}: {error}") from None
