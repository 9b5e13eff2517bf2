"""Any content of a file gives diagnostics, never another exception."""

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.projects import compile_joints, source, sql
from support.torture import examples

from rivet_dagster.cache import CompileCache
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.project.joint_file import python_joint, sql_joint, yaml_joint
from rivet_dagster.project.known_files import Draft
from rivet_dagster.project.load import load_project
from rivet_dagster.project.python_function import FunctionError, PythonSources
from rivet_dagster.project.quality import check_text

from .conftest import MANIFEST, PROFILES
from .test_joint_files import FULL_YAML
from .test_settings import FULL

PIECES = [
    *"\n\r\t :-#[]{},'\"|>&*!%@`~?=()\\$\0\ufeff\u2028\ud7ffé0",
    *("\n  ", "- ", ": ", "--", "---\n", "...\n", '"""'),
    *("null", "true", "012", "0x", "1e999", ".nan", "9" * 1001, "\U0001f600"),
    *("<<: ", "&a ", "*a", "!!python/name:os.system ", "${", "${A}", "source", "sink", "python"),
    *("SELECT ", "FROM raw ", "WITH a AS (", "/*", "|> ", "UNION ", "1e", "CREATE TABLE ", ";", "{{", "OVER ("),
    *("quality: ", "name: ", "type: ", "columns: ", "tags: ", "options: ", "write_strategy: ", "{mode: "),
    *("-- rivet:", "# rivet:", "assert: ", "not_null(", "def transform(", "async ", "yield "),
]
SQL = """\
-- rivet:name: a
-- why
-- rivet:tags: {x: y}
-- rivet:assert: accepted_values(column=a, values=[b, 'c'], severity=warn)
-- rivet:audit: expression(sql='a > 0', name=x)
-- rivet:quality: {assertions: [{type: not_null, columns: [a]}]}
SELECT a -- rivet
FROM b
"""
PYTHON = '''\
#!/usr/bin/env python
# rivet:upstream: [a, b]
# rivet:assert: row_count(min=1)
"""Doc."""
def transform(a, b, *, c=1):
    return [a for b in c]
'''
QUERIES = (
    "WITH a AS (SELECT id, net * 2 AS twice FROM raw WHERE id > 1) SELECT a.*, count(*) OVER (ORDER BY id) AS n FROM a",
    "FROM raw |> WHERE id > 1 |> AGGREGATE sum(net) AS total GROUP BY id |> ORDER BY total LIMIT 3",
    "SELECT CAST(net AS DECIMAL(9,2)) x, s.a[0], transform(y, q -> q + 1) FROM raw PIVOT (max(net) FOR id IN (1, 2))",
    "id > 1 AND name LIKE 'a%' OR CASE WHEN net IS NULL THEN true ELSE false END",
    "id BIGINT NOT NULL, s STRUCT<a: ARRAY<INT>, b: MAP<STRING, DATE>> COMMENT 'x'",
)
SOURCE = "type: source\ncatalog: c\ntable: t\ncolumns: [a, {b: c}]\nfilter: x\nlimit: 5\nowners: [team:x]\n"
FAST = settings(max_examples=examples(30, 150), suppress_health_check=list(HealthCheck))


def mutated(*seeds: str) -> st.SearchStrategy[str]:
    """Generate a seed with a few pieces removed, doubled or inserted."""

    @st.composite
    def draw_text(draw: st.DrawFn) -> str:
        text = draw(st.sampled_from(seeds) | st.just(""))
        for _ in range(draw(st.integers(0, 6))):
            begin = draw(st.integers(0, len(text)))
            end = draw(st.integers(begin, min(len(text), begin + 12)))
            replacement = draw(st.sampled_from(["", text[begin:end], text[begin:end] * 2]))
            piece = draw(st.sampled_from(PIECES) | st.text(max_size=4))
            text = text[:begin] + replacement + piece + text[end:]
        return text

    return draw_text()


def sound(errors: tuple[Diagnostic, ...]) -> None:
    """Assert that the errors can be shown, and have a line of a file."""
    for error in errors:
        assert str(error)
        assert json.dumps(error.to_dict()).isascii()
        assert error.file is None or error.line is None or error.line >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "file", "seeds"),
    [
        (yaml_joint, "joints/a.yaml", (FULL_YAML, SOURCE)),
        (sql_joint, "joints/a.sql", (SQL,)),
        (python_joint, "joints/a.py", (PYTHON,)),
    ],
)
def test_joint_files(read: Callable[[str, str], Draft], file: str, seeds: tuple[str, ...]) -> None:
    @FAST
    @given(mutated(*seeds))
    def check(text: str) -> None:
        draft = read(text, file)
        joint, errors = draft.joint()
        assert joint is not None or errors
        sound(errors)
        lines = text.count("\n") + text.count("\r") + 1
        assert all(error.line is None or error.line <= lines for error in errors)

    check()


@FAST
@given(mutated(*QUERIES))
def test_queries(text: str) -> None:
    raw = source("raw", options={"schema": "id BIGINT, net DOUBLE"})
    with suppress(RivetError):  # an empty text declares no joint
        for joint in (sql("a", text), source("a", filter=text), source("a", options={"schema": text})):
            plan = compile_joints(raw, joint, sql("b", "SELECT * FROM a"))
            sound((*plan.errors, *plan.warnings))


@FAST
@given(mutated("not_null(a, 'b')", "accepted_values(column=a, values=[1, {b: c}])", 'expression("a, b" > 1, x=`y`)'))
def test_check_texts(text: str) -> None:
    with suppress(ValueError):
        check_text(text, 1)


@FAST
@given(mutated(PYTHON, "def f(a):\n  yield a\ndef transform(b): ...\nasync def g(): ..."))
def test_python_sources(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "m.py").write_bytes(text.encode("utf-8", "surrogatepass"))
        with suppress(FunctionError):
            assert PythonSources(Path(folder), CompileCache()).find("m:transform").tree


@FAST
@given(mutated(MANIFEST + "dagster: {key_prefix: [a]}\n"), mutated(PROFILES, FULL), st.binary(max_size=20))
def test_projects(manifest: str, profiles: str, joint: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("sources", "joints", "sinks", "quality"):
            (root / name).mkdir()
        (root / "rivet.yaml").write_text(manifest, encoding="utf-8", errors="surrogatepass", newline="")
        (root / "profiles.yaml").write_text(profiles, encoding="utf-8", errors="surrogatepass", newline="")
        for name in ("joints/a.sql", "joints/b.yaml", "joints/c.py", "quality/a.yaml"):
            (root / name).write_bytes(joint)
        sound(errors_of(root))


def errors_of(root: Path) -> tuple[Diagnostic, ...]:
    try:
        return load_project(root, environ={"A": "x"}).errors
    except RivetError as error:
        return error.diagnostics
