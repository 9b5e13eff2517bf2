import textwrap
from pathlib import Path

import pytest

from rivet_dagster.cache import CompileCache
from rivet_dagster.model.project import PythonFunction
from rivet_dagster.project.python_function import FunctionError, PythonSources


def find(root: Path, source: str, function: str = "m:f") -> PythonFunction:
    (root / "m.py").write_text(textwrap.dedent(source), encoding="utf-8")
    return PythonSources(root, CompileCache()).find(function)


@pytest.mark.parametrize(
    ("signature", "parameters"),
    [
        ("f()", ()),
        ("f(a, b)", ("a", "b")),
        ("f(a, /, b: int, *, c)", ("a", "b", "c")),
        ("f(a, b=1, *, c=2, d)", ("a", "d")),
        ("f(a=1, /, b=2)", ()),
    ],
)
def test_parameters_without_a_default_are_upstream(tmp_path: Path, signature: str, parameters: tuple[str, ...]) -> None:
    assert find(tmp_path, f"def {signature}: ...").parameters == parameters


def test_where_a_function_is_found(tmp_path: Path) -> None:
    function = find(tmp_path, "import nowhere\n\n@nowhere.cached\ndef f(a): return (yield_ for yield_ in a)\n")
    assert (function.file, function.name, function.line) == ("m.py", "f", 4)


def test_a_package(tmp_path: Path) -> None:
    (tmp_path / "lib" / "steps").mkdir(parents=True)
    (tmp_path / "lib" / "steps" / "__init__.py").write_text("def f(): ...\ndef f(a): ...")
    function = PythonSources(tmp_path, CompileCache()).find("lib.steps:f")
    assert (function.file, function.line, function.parameters) == ("lib/steps/__init__.py", 2, ("a",))


def test_the_users_module_is_not_imported(tmp_path: Path) -> None:
    assert find(tmp_path, "raise SystemExit\ndef f(a): ...").parameters == ("a",)


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("", None, "m.py defines no function 'f' at its top level"),
        ("f = lambda a: a", None, "no function"),
        ("class f: ...", None, "no function"),
        ("class A:\n  def f(a): ...", None, "no function"),
        ("if True:\n  def f(a): ...", None, "no function"),
        ("\nasync def f(a): ...", 2, "is async"),
        ("\ndef f(a):\n  if a:\n    yield a", 2, "is a generator"),
        ("\ndef f(a):\n  x = yield from a", 2, "is a generator"),
        ("\ndef f(*tables): ...", 2, "takes *tables"),
        ("\ndef f(a, **more): ...", 2, "takes **more"),
        ("x = 1\ndef f(:", 2, "the Python is wrong"),
        ("def f(a): return " + "(" * 500, 1, "the Python is wrong"),
        ("x = " + "-" * 100_000 + "1", None, "cannot be parsed"),
    ],
)
def test_wrong_texts_are_rejected(tmp_path: Path, source: str, line: int | None, words: str) -> None:
    with pytest.raises(FunctionError) as caught:
        find(tmp_path, source)
    assert words in caught.value.message
    assert (caught.value.file, caught.value.line) == ("m.py" if line or "parsed" in words else None, line)


@pytest.mark.parametrize("function", ["", "m", ":f", "m:", "m:f.g", "..m:f", "m/n:f", "m:f ", "/m:f"])
def test_wrong_function_names_are_rejected(tmp_path: Path, function: str) -> None:
    with pytest.raises(FunctionError, match=r"`package\.module:name`"):
        find(tmp_path, "def f(): ...", function)


def test_a_nested_generator_does_not_count(tmp_path: Path) -> None:
    assert find(tmp_path, "def f(a):\n  def g():\n    yield a\n  return list(g())").parameters == ("a",)


CODE = '''
def f(a, *, key="x"):
    """What it does."""
    def inner():
        "why"
        return a
    return [b"1", 1.0, 1, True, None, ..., f"{a!r:>{4}}", inner()]
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("What it does.", "More.", True),
        ('    """What it does."""\n', "", True),
        ('        "why"\n', "", True),
        ("return a", "return a  # as it is", True),
        ("def f", "import os\n\ndef f", True),
        ("[b", "[\n        b", True),
        ('"x"', "'x'", True),
        ('"x"', 'u"x"', True),
        ("return a", "return b", False),
        ("1.0", "1", False),
        ("True", "1", False),
        ("None", "False", False),
        ('b"1"', '"1"', False),
        ("!r", "!s", False),
        ("*, ", "", False),
        ("(a,", "(a: int,", False),
        ("def f", "@g\ndef f", False),
        ("[b", "[[b", None),
    ],
)
def test_the_tree_changes_only_with_the_code(tmp_path: Path, old: str, new: str, same: bool | None) -> None:
    assert old in CODE
    before = find(tmp_path, CODE).tree
    changed = CODE.replace(old, new, 1)
    if same is None:
        with pytest.raises(FunctionError):
            find(tmp_path, changed)
    else:
        assert (find(tmp_path, changed).tree == before) is same


def test_the_tree_is_the_same_for_every_version_of_python(tmp_path: Path) -> None:
    assert find(tmp_path, CODE).tree == "b86fe89cdd70197bbb75c9bced3fe2113058bbcd031a4a9667f52d3906a5b644"
    assert find(tmp_path, "def f(a): return " + " + ".join(["a"] * 900)).tree
