"""The files of a project's tests: what they declare, and mistakes with their file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivet_dagster.errors import RivetError
from rivet_dagster.project_tests.declared import ProjectTest
from rivet_dagster.project_tests.parsing import read_tests, select_tests

MANIFEST = "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\n"


@pytest.fixture
def read(tmp_path):
    """Return a function that writes files of tests, and reads them."""
    (tmp_path / "rivet.yaml").write_text(MANIFEST)
    for folder in ("sources", "joints", "sinks", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "profiles.yaml").write_text("default: {}\n")

    def read(text: str = "", **files: str) -> dict[str, ProjectTest]:
        for name, content in {"a": text, **files}.items():
            path = tmp_path / f"tests/{name.replace('__', '/')}.test.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return {test.name: test for test in read_tests(Path(tmp_path))}

    return read


def messages(test: ProjectTest) -> list[str]:
    return [str(error).splitlines()[0] for error in test.errors]


def test_each_document_is_a_test_named_by_itself_or_by_its_file(read):
    tests = read(
        "target: x\nexpected: {rows: []}\n---\nname: own\ntarget: y\nerror: E\n---\n# nothing\n"
        "---\ntarget: z\nerror: E\n",
        deep__b="target: w\nerror: E\n",
    )
    assert {name: (t.target, t.location.file, t.location.line) for name, t in tests.items()} == {
        "a": ("x", "tests/a.test.yaml", 1),
        "own": ("y", "tests/a.test.yaml", 4),
        "a_2": ("z", "tests/a.test.yaml", 10),
        "b": ("w", "tests/deep/b.test.yaml", 1),
    }
    assert not any(test.errors for test in tests.values())


def test_a_project_without_a_folder_of_tests_has_none(tmp_path, read):
    (tmp_path / "tests").rmdir()
    assert read_tests(tmp_path) == ()


def test_a_folder_that_the_manifest_names_must_exist(tmp_path, read):
    (tmp_path / "rivet.yaml").write_text(MANIFEST + "tests: test\n")
    with pytest.raises(RivetError, match="the folder 'test' does not exist; did you mean 'tests'"):
        read_tests(tmp_path)


MISTAKES = {
    "nme: x\ntarget: j\nerror: E\n": ["RVT-203 tests/a.test.yaml:1: unknown key 'nme' of a test; did you mean 'name'?"],
    "error: E\n": ["RVT-205 tests/a.test.yaml:1: `target` is missing: the joint whose rows are compared"],
    "target: j\n": ["RVT-205 tests/a.test.yaml:1: the test expects nothing: give `expected`, `error` or `checks`"],
    "target: j\nerror: E\nexpected: {rows: []}\n": [
        "RVT-204 tests/a.test.yaml:2: `error` stands in place of `expected`: give one of them"
    ],
    "target: j\nerror: E\nscope: grph\n": [
        "RVT-204 tests/a.test.yaml:3: `scope` must be one of joint, graph, not 'grph'"
    ],
    "target: j\nerror: E\ntolerance: -1\n": [
        "RVT-204 tests/a.test.yaml:3: `tolerance` must be a number of at least 0, not -1"
    ],
    "target: j\nerror: E\ninputs:\n  a: {row: []}\n": [
        "RVT-203 tests/a.test.yaml:4: unknown key 'row' of `a`; did you mean 'rows'?",
        "RVT-205 tests/a.test.yaml:4: `a` needs `rows`, or a `file` with them",
    ],
    "target: j\nerror: E\ninputs:\n  a: {rows: [], file: x.csv}\n": [
        "RVT-204 tests/a.test.yaml:4: `a` has both `file` and `rows`: give one"
    ],
    "target: j\nerror: E\ninputs:\n  a:\n    columns: [x, y]\n    rows: [[1]]\n": [
        "RVT-204 tests/a.test.yaml:6: `a`: row 1 has 1 values for 2 columns"
    ],
    "target: j\nerror: E\ninputs:\n  a:\n    rows: [{x: 1, X: 2}]\n": [
        "RVT-204 tests/a.test.yaml:5: `a`: columns differ in letter case alone: x, X"
    ],
    "target: j\nerror: E\ninputs: {a: {rows: [], schema: 'x INTERVAL'}}\n": [
        "RVT-204 tests/a.test.yaml:3: `schema` gives x a type that no value of a test can have"
    ],
    "target: j\nexpected: {schema: 'a INT'}\n": [
        "RVT-205 tests/a.test.yaml:2: `expected` has no rows: give `rows` or a `file`, or `compare: schema_only`"
    ],
    "target: j\nchecks: {unique_id: fails}\n": [
        "RVT-204 tests/a.test.yaml:2: `unique_id` must be one of passed, warned, failed, not 'fails'"
    ],
    "target: j\nerror: E\nincremental: {watermrk: 1}\n": [
        "RVT-203 tests/a.test.yaml:3: unknown key 'watermrk' of `incremental`; did you mean 'watermark'?"
    ],
    "target: j\nerror: E\noptions: {ignore: [a]}\n": [
        "RVT-203 tests/a.test.yaml:3: unknown key 'ignore' of `options`; did you mean 'ignore_columns'?"
    ],
    "- target\n": ["RVT-204 tests/a.test.yaml:1: a test must be a mapping with `target`, `inputs` and `expected`"],
    "target: j\ntarget: k\n": ["RVT-202 tests/a.test.yaml:2: the key 'target' is repeated, first given on line 1"],
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_an_error_of_its_test_alone(read, text):
    tests = read(f"{text}---\nname: fine\ntarget: j\nerror: E\n")
    assert messages(tests["a"]) == MISTAKES[text]
    assert tests["fine"].errors == ()


def test_a_file_that_is_no_text_is_one_test_with_an_error(read, tmp_path):
    (tmp_path / "tests/bytes.test.yaml").write_bytes(b"target: \xff")
    assert messages(read("target: j\nerror: E\n")["bytes"]) == [
        "RVT-211 tests/bytes.test.yaml:1: the file is not UTF-8 text"
    ]


BASE = """
name: base
target: revenue
inputs:
  paid: {rows: [{customer: ann}], schema: 'customer STRING'}
  rates: {file: rates.csv}
options: {ignore_columns: [at]}
expected: {rows: [{customer: ann}]}
"""


def test_extends_merges_mappings_and_replaces_the_rest(read):
    tests = read(
        f"{BASE}---\nname: own\nextends: base\ntolerance: 1\n"
        "inputs: {paid: {columns: [customer], rows: [[bob]]}}\n",
        folder__b="name: further\nextends: own\nerror: X\ninputs: {rates: {rows: [{rate: 1}]}}\n",
    )
    own, further = tests["own"], tests["further"]
    assert not own.errors
    assert not further.errors
    assert own.inputs["paid"].rows == (("bob",),)
    assert [str(type_) for _, type_ in own.inputs["paid"].types] == ["string"]
    assert own.inputs["rates"].file == "tests/rates.csv"
    assert (own.target, own.tolerance, own.ignored) == ("revenue", 1.0, ("at",))
    assert (further.expected, further.error, further.inputs["rates"].columns) == (None, "X", ("rate",))
    assert further.inputs["paid"].rows == (("bob",),)
    assert further.files == {"tests/a.test.yaml", "tests/folder/b.test.yaml"}


def test_a_mistake_in_an_extended_test_stands_where_it_is(read):
    tests = read("name: base\ntarget: j\nscope: all\nerror: E\n", b="name: own\nextends: base\n")
    assert messages(tests["own"]) == ["RVT-204 tests/a.test.yaml:3: `scope` must be one of joint, graph, not 'all'"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nextends: a\n", "tests/a.test.yaml:2: the tests extend each other in a circle: a -> a"),
        ("name: a\nextends: c\n---\nname: c\nextends: a\n", "the tests extend each other in a circle: a -> c -> a"),
        ("name: a\nextends: bse\n---\nname: base\n", "`extends`: no test is named 'bse'; did you mean 'base'?"),
        ("name: a\nextends: [b]\n", "`extends` must be the name of a test"),
        ("name: a\nextends: b\n---\nname: b\n---\nname: b\n", "several tests are named 'b': tests/a.test.yaml:4, "),
    ],
)
def test_a_wrong_extends(read, text, message):
    (found,) = messages(read(text)["a"])
    assert found.startswith("RVT-214 ")
    assert message in found


def test_tests_are_selected_by_path_and_name(read):
    tests = read("name: refunds\ntarget: x\n", folder__b="name: more_refunds\n---\nname: other\n").values()

    def names(*paths, text=None):
        return [test.name for test in select_tests(tuple(tests), paths, text)]

    assert names() == ["refunds", "more_refunds", "other"]
    assert names("tests/folder") == ["more_refunds", "other"]
    assert names("tests/folder/b.test.yaml", "tests/a.test.yaml", text="refund") == ["refunds", "more_refunds"]
    assert names("tests/fold") == []
    assert names(text="Refund") == []


def test_a_list_without_rows_has_the_columns_of_its_schema(read):
    test = read(
        "target: j\ninputs: {a: {rows: [{}], schema: 'x INT, y INT'}}\nexpected: {rows: [], schema: 'x INT'}\n"
    )["a"]
    assert (test.errors, test.expected.columns, test.expected.rows) == ((), ("x",), ())
    assert (test.inputs["a"].columns, test.inputs["a"].rows) == (("x", "y"), ((None, None),))
    assert read("target: j\nexpected: {rows: []}\n")["a"].expected.columns is None
