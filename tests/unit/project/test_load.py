"""Loading whole projects: which files are joints, what folders mean, and checks from several files."""

import os
import shutil
from pathlib import Path

import pytest

from rivet_dagster.model.joint import Joint
from rivet_dagster.project.load import load_project

from .conftest import MANIFEST, Load, Write

SQL = "SELECT 1 AS a"
NOT_NULL = "assertions: [{type: not_null, columns: a}]\n"


def test_which_files_are_joints(load: Load) -> None:
    names = ["b.sql", "a/z.sql", "a/B/y.sql", "a-b/x.sql", "d.py/w.sql", ".h.sql", "_h.sql", ".h/h.sql", "_h/h.sql",
             "__pycache__/h.sql", "h.txt", "h.md", "sql", "h.sql.bak"]  # fmt: skip
    project = load({f"joints/{name}": SQL for name in names} | {"sources/v.yml": "type: sql\nsql: SELECT 1"})
    assert project.errors == ()
    assert [joint.name for joint in project.joints] == ["v", "y", "z", "x", "b", "w"]
    assert project.asset_groups == {"y": "a", "z": "a", "x": "a_b", "w": "d_py"}


def test_folders_may_be_the_same_or_inside_each_other(load: Load) -> None:
    manifest = MANIFEST.replace(": sources", ": all/").replace(": joints", ": all").replace(": sinks", ": all/out")
    project = load({
        "rivet.yaml": manifest + "quality: all/checks\n", "all/a.sql": SQL, "all/in/b.sql": SQL, "all/out/c.sql": SQL,
        "all/out/in/d.sql": SQL, "all/checks/a.yaml": NOT_NULL,
    })  # fmt: skip
    assert project.errors == ()
    assert [joint.name for joint in project.joints] == ["a", "b", "c", "d"]
    assert project.asset_groups == {"b": "in", "d": "in"}


def test_links_are_followed_once(write: Write) -> None:
    root = write({"joints/sub/a.sql": SQL, "elsewhere/b.sql": SQL})
    for link, target in [("joints/again", "joints"), ("joints/sub/up", "."), ("joints/a1", "joints/sub"),
                         ("joints/more", "elsewhere"), ("joints/gone", "nowhere"), ("joints/c.sql", "joints/c.sql"),
                         ("elsewhere/back", "joints")]:  # fmt: skip
        os.symlink(root / target, root / link)
    os.mkfifo(root / "joints" / "pipe.sql")
    project = load_project(root, environ={})
    assert sorted(joint.name for joint in project.joints) == ["a", "b"]
    assert [(e.code, e.file) for e in project.errors] == [("RVT-211", "joints/c.sql")]
    assert "cannot be read" in project.errors[0].message


def test_two_joints_with_one_name_are_both_loaded(load: Load) -> None:
    project = load({"joints/x/a.sql": SQL, "joints/y/a.sql": SQL, "quality/a.yaml": NOT_NULL})
    assert [(j.name, j.origin.file, len(j.quality)) for j in project.joints] == [
        ("a", "joints/x/a.sql", 1),
        ("a", "joints/y/a.sql", 1),
    ]


def test_checks_are_ordered_by_location_and_have_distinct_names(load: Load) -> None:
    project = load({
        "joints/m/a.sql": f"-- rivet:assert: not_null(a)\n{SQL}",
        "joints/m/a.quality.yaml": NOT_NULL + "audits: [{type: row_count, max: 9}]",
        "joints/m/a.quality.yml": NOT_NULL,
        "quality/deep/a.yaml": NOT_NULL,
        "quality/a/known.sql": "-- @phase: audit\n-- @severity: warn\nSELECT * FROM a WHERE a > 1",
        "quality/a/small.sql": "-- @phase: assertion\nSELECT * FROM a WHERE a > 1",
    })  # fmt: skip
    assert project.errors == ()
    assert [(c.name, c.phase, c.file) for c in project.joints[0].quality] == [
        ("not_null_a", "assertion", "joints/m/a.sql"),
        ("not_null_a_2", "assertion", "joints/m/a.quality.yaml"),
        ("audit_row_count", "audit", "joints/m/a.quality.yaml"),
        ("not_null_a_3", "assertion", "joints/m/a.quality.yml"),
        ("known", "audit", "quality/a/known.sql"),
        ("small", "assertion", "quality/a/small.sql"),
        ("not_null_a_4", "assertion", "quality/deep/a.yaml"),
    ]


@pytest.mark.parametrize(
    ("file", "text", "code", "line", "words"),
    [
        ("joints/orders.quality.yaml", NOT_NULL, "RVT-302", None, "'orders' is not declared in this folder"),
        ("joints/m/ordrs.quality.yaml", NOT_NULL, "RVT-302", None, "did you mean 'orders'?"),
        ("quality/orders.yaml", "", "RVT-202", None, "must hold a mapping"),
        ("quality/orders.yaml", "[a]", "RVT-202", 1, "must hold a mapping"),
        ("quality/orders.yaml", "a: [", "RVT-202", 1, "cannot be read"),
        ("quality/orders.yaml", b"# \xff", "RVT-211", 1, "UTF-8"),
        ("quality/orders.yaml", "\nasserts: []", "RVT-203", 2, "did you mean 'assertions'?"),
        ("quality/orders.yaml", "\naudits: 5", "RVT-204", 2, "must be a list"),
        ("joints/m/orders.quality.yaml", "audits:\n- {type: not_nul}", "RVT-209", 2, "did you mean 'not_null'?"),
    ],
)  # fmt: skip
def test_wrong_quality_files(load: Load, file: str, text: str | bytes, code: str, line: int | None, words: str) -> None:
    project = load({"joints/m/orders.sql": SQL, file: text})
    (error,) = project.errors
    assert (error.code, error.file, error.line) == (code, file, line)
    assert words in error.message
    assert project.joints[0].quality == ()


def test_a_quality_file_of_an_invalid_joint_is_no_second_error(load: Load) -> None:
    project = load({"joints/a.yaml": "type: [", "quality/a.yaml": NOT_NULL})
    assert [error.code for error in project.errors] == ["RVT-202"]


def test_joints_declared_in_python(write: Write) -> None:
    checks = {"quality/p.yaml": NOT_NULL, "quality/s.yaml": NOT_NULL}
    root = write({"joints/a.sql": SQL, "lib.py": "def f(a): ...", **checks})
    joints = [
        Joint(name="p", type="python", function="lib:f", quality={"audits": [{"type": "unique", "columns": ["a"]}]}),
        Joint(name="q", type="python", function="lib:g"),
        Joint(name="s", type="source", catalog="lake", table="t", columns=["a", {"b": "a + 1"}], tags=["x"]),
    ]
    project = load_project(root, environ={}, joints=joints)
    assert [joint.name for joint in project.joints] == ["a", "p", "q", "s"]
    assert [check.name for check in project.joints[1].quality] == ["audit_unique_a", "not_null_a"]
    assert project.joints[3].columns == (("a", None), ("b", "a + 1"))
    assert len(project.joints[3].quality) == 1
    assert project.functions["p"].parameters == ("a",)
    assert [(e.code, e.joint, e.file, e.line) for e in project.errors] == [("RVT-210", "q", None, None)]


def test_a_function_of_another_file(load: Load) -> None:
    project = load({
        "joints/a.py": "# rivet:function: lib.steps:clean\n",
        "joints/b.yaml": "type: python\nfunction: lib.steps:gone\n",
        "joints/c.yaml": "type: python\nfunction: lib.broken:f\n",
        "joints/v1.0/d.py": "def transform(a): ...",
        "joints/helpers.py": "",
        "lib/steps.py": "def clean(orders): ...\n",
        "lib/broken.py": b"\n\xff",
    })  # fmt: skip
    assert {name: (f.file, f.name) for name, f in project.functions.items()} == {
        "a": ("lib/steps.py", "clean"),
        "d": ("joints/v1.0/d.py", "transform"),
    }
    assert [(e.code, e.joint, e.file, e.line) for e in project.errors] == [
        ("RVT-210", "b", "joints/b.yaml", 2),
        ("RVT-210", "helpers", "joints/helpers.py", 1),
        ("RVT-210", "c", "lib/broken.py", 2),
    ]
    assert "let its name begin with '_'" in str(project.errors[1])


def test_the_environment_of_the_process_is_the_default(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles = "here: {engines: [{name: e, type: pyspark, master: '${PLACE}'}]}"
    root = write({"profiles.yaml": profiles})
    monkeypatch.setenv("RIVET_PROFILE", "here")
    monkeypatch.setenv("PLACE", "local")
    assert load_project(root).profile.engines[0].options == {"master": "${PLACE}"}


def test_the_same_files_give_the_same_project_anywhere(write: Write, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = write({"joints/b/a.sql": SQL, "joints/c.py": "def transform(a): ...", "quality/a.yaml": NOT_NULL})
    other = tmp_path_factory.mktemp("other") / "place"
    shutil.copytree(root, other)
    first, second = load_project(root, environ={}), load_project(other, environ={})
    assert first == second
    assert [j.origin for j in first.joints] == [j.origin for j in second.joints]


def test_a_relative_root(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write({"joints/a.sql": SQL}))
    assert load_project(Path(), environ={}).joints[0].origin.file == "joints/a.sql"
