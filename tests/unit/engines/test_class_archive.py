"""Archives of classes: which one is used, what is passed over, and when one is made without being asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from rivet_dagster.cli.main import main
from rivet_dagster.engines.pyspark.class_archive import making, store
from rivet_dagster.engines.pyspark.class_archive import making as making_module
from rivet_dagster.engines.pyspark.class_archive.jvm import SparkJvm
from rivet_dagster.engines.pyspark.class_archive.making import (
    archive_options,
    examine_archive,
    make_archive,
    may_make_itself,
)
from rivet_dagster.engines.pyspark.class_archive.options import options_set
from rivet_dagster.engines.pyspark.class_archive.store import (
    Archive,
    NoArchive,
    archive_folder,
    find_archive,
    log_of,
    writable_by_others,
)
from rivet_dagster.engines.pyspark.config import session_config, wrong_options
from rivet_dagster.engines.pyspark.java import Java
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec

AS_ROOT = os.getuid() == 0


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    """Return the home of a Spark with two jars."""
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    for name in ("spark-core_2.13-4.1.4.jar", "scala.jar"):
        (home / "jars" / name).write_text(name)
    return home


@pytest.fixture
def java(tmp_path: Path) -> Java:
    """Return a Java that is some files."""
    home = tmp_path / "java"
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "libjvm.so").write_text("17.0.1")
    return Java(home, 17)


@pytest.fixture
def jvm(spark: Path, java: Java) -> SparkJvm:
    return SparkJvm.of(java, spark, {}, {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that only this user can write, as are all above it."""
    return tmp_path / "cache" / "archives"


def added(folder: Path, jvm: SparkJvm, text: str = "classes") -> Archive:
    with store.make_folder(folder) as made:
        assert made is not None
        (made / "classes.jsa").write_text(text)
        return store.add_archive(folder, jvm, made, (made / "classes.jsa",))


def reason(folder: Path, jvm: SparkJvm) -> str:
    found = find_archive(folder, jvm)
    assert isinstance(found, NoArchive)
    return found.reason


def test_an_archive_that_was_added_is_found(folder, jvm):
    assert reason(folder, jvm) == "there is none yet"
    archive = added(folder, jvm)
    assert find_archive(folder, jvm) == archive
    assert archive.files[0].read_text() == "classes"
    assert archive.size == len("classes")
    assert folder.stat().st_mode & 0o077 == 0
    assert not list(folder.glob(".making-*"))


@pytest.mark.parametrize("damage", ["classe", "classes and more", "Classes", ""])
def test_a_damaged_archive_is_passed_over_and_replaced(folder, jvm, damage):
    file = added(folder, jvm).files[0]
    file.chmod(0o600)
    file.write_text(damage)
    assert reason(folder, jvm) == f"{file} is damaged"
    added(folder, jvm)
    assert isinstance(find_archive(folder, jvm), Archive)


def test_a_damaged_description_is_passed_over(folder, jvm):
    description = added(folder, jvm).files[0].with_name(store.DESCRIPTION)
    for text in ("", "{}", "[]", '{"files": {"classes.jsa": 3}, "states": {}}'):
        description.write_text(text)
        assert "cannot be read" in reason(folder, jvm)


def test_a_copy_of_an_archive_is_compared_byte_by_byte_once(folder, jvm, monkeypatch):
    file = added(folder, jvm).files[0]
    file.replace(file.with_name("moved"))
    file.write_text("classes")
    hashed = []
    monkeypatch.setattr(store, "_hash", lambda path, original=store._hash: hashed.append(path) or original(path))
    assert isinstance(find_archive(folder, jvm), Archive)
    assert isinstance(find_archive(folder, jvm), Archive)
    assert hashed == [file]


def test_what_others_can_write_is_passed_over(folder, jvm):
    file = added(folder, jvm).files[0]
    for path in (file, file.parent, folder, folder.parent):
        mode = path.stat().st_mode
        for shared in (0o020, 0o002):
            path.chmod(mode | shared)
            assert reason(folder, jvm) == f"others can write to {path}"
        path.chmod(mode)
    assert isinstance(find_archive(folder, jvm), Archive)


def test_others_may_write_where_the_sticky_bit_keeps_them_from_replacing(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "file").write_text("")
    assert writable_by_others(shared / "file") is None
    shared.chmod(0o777)
    assert writable_by_others(shared / "file") == shared


@pytest.mark.skipif(not AS_ROOT, reason="only root can give files away")
def test_what_belongs_to_another_user_is_passed_over(folder, jvm):
    file = added(folder, jvm).files[0]
    os.chown(file, 12345, -1)
    assert reason(folder, jvm) == f"others can write to {file}"


def test_a_link_to_what_others_can_write_is_passed_over(folder, jvm, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    added(elsewhere, jvm)
    elsewhere.chmod(0o777)
    folder.parent.mkdir(parents=True)
    folder.symlink_to(elsewhere)
    assert reason(folder, jvm) == f"others can write to {elsewhere}"


def test_the_oldest_archives_are_removed(folder, spark, java):
    jvms = [SparkJvm.of(java, spark, {"spark.jars": f"/jars/{number}.jar"}, {}) for number in range(store.MOST + 2)]
    for age, jvm in enumerate(jvms):
        file = added(folder, jvm).files[0]
        log_of(folder, jvm).write_text("made")
        os.utime(file.with_name(store.DESCRIPTION), (age, age))
    last = SparkJvm.of(java, spark, {}, {})
    added(folder, last)
    left = [jvm for jvm in (*jvms, last) if isinstance(find_archive(folder, jvm), Archive)]
    assert left == [*jvms[-store.MOST + 1 :], last]
    assert {path.stem for path in folder.glob("*.log")} == {jvm.key for jvm in jvms[-store.MOST + 1 :]}


def test_one_process_at_a_time_makes_an_archive_and_removes_what_a_killed_one_left(folder, jvm):
    folder.mkdir(parents=True)
    (folder / ".making-killed").mkdir()
    with store.make_folder(folder) as made:
        assert made is not None
        assert not (folder / ".making-killed").exists()
        with store.make_folder(folder) as second:
            assert second is None
        assert make_archive(folder, jvm) is None
    assert not made.exists()


def test_another_java_spark_or_set_of_jars_has_another_archive(spark, java, jvm):
    configs: list[Mapping[str, str]] = [
        {"spark.jars": "/jars/a.jar"},
        {"spark.jars.packages": "org:lake:1"},
        {"spark.driver.extraClassPath": "/jars/b.jar"},
    ]
    keys = {jvm.key, *(SparkJvm.of(java, spark, config, {}).key for config in configs)}
    keys.add(SparkJvm.of(java, spark, {}, {"HADOOP_CONF_DIR": "/etc/hadoop"}).key)
    (spark / "jars" / "scala.jar").write_text("another scala")
    keys.add(jvm.key)
    (java.home / "lib" / "server" / "libjvm.so").write_text("17.0.22, upgraded in place")
    keys.add(jvm.key)
    (spark / "jars" / "more.jar").write_text("")
    keys.add(jvm.key)
    assert len(keys) == 8
    assert SparkJvm.of(java, spark, {"spark.sql.shuffle.partitions": "3"}, {"PATH": "/bin"}).key == jvm.key


def test_a_jvm_is_the_same_after_json(spark, java):
    config = {"spark.jars": "/a.jar", "spark.jars.packages": "org:lake:1", "spark.driver.extraClassPath": "/b.jar"}
    jvm = SparkJvm.of(java, spark, config, {"YARN_CONF_DIR": "/etc/yarn"})
    assert SparkJvm.from_json(jvm.to_json()) == jvm


def test_a_folder_of_settings_on_the_class_path_keeps_java_from_archiving(spark, java, folder):
    (spark / "conf").mkdir()
    jvm = SparkJvm.of(java, spark, {}, {})
    assert jvm.obstacle is None
    (spark / "conf" / "spark-defaults.conf").write_text("")
    assert str(spark / "conf") in str(jvm.obstacle)
    assert not may_make_itself(folder, jvm, {})
    with pytest.raises(RivetError, match=r"RVT-526.*folder with files is on the class path"):
        make_archive(folder, jvm)


@pytest.mark.parametrize(
    ("option", "environ", "expected"),
    [
        (None, {"HOME": "/home/ann"}, "/home/ann/.cache/rivet_dagster/class-archives"),
        (None, {"HOME": "/home/ann", "XDG_CACHE_HOME": "relative"}, "/home/ann/.cache/rivet_dagster/class-archives"),
        (None, {"RIVET_CLASS_ARCHIVE": "/opt/archives"}, "/opt/archives"),
        ("/srv/archives", {"RIVET_CLASS_ARCHIVE": "false"}, "/srv/archives"),
        (False, {"RIVET_CLASS_ARCHIVE": "/opt/archives"}, None),
        (None, {"RIVET_CLASS_ARCHIVE": "OFF"}, None),
    ],
)
def test_the_folder_of_archives(option, environ, expected):
    assert archive_folder(option, environ) == (None if expected is None else Path(expected))


def test_wrong_values_of_the_option():
    assert wrong_options({"class_archive": True}) == {"class_archive": "must be a text, not true"}
    assert "class_archive" in wrong_options({"class_archive": "/a", "remote": "sc://host"})
    assert wrong_options({"class_archive": False}) == {}
    assert "class_archive" not in session_config(EngineSpec("spark", "pyspark", options={"class_archive": "/a"}))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[SparkJvm]:
    """Return the JVMs for which an archive would be made at the end of the process."""
    jvms: list[SparkJvm] = []
    monkeypatch.setattr(making.atexit, "register", lambda act, folder, jvm: jvms.append(jvm))
    return jvms


def test_spark_starts_from_the_archive_that_is_there(folder, jvm, java, spark, registered):
    assert archive_options(folder, java, {}, spark, {}) == ""
    assert registered == [jvm]
    file = added(folder, jvm).files[0]
    assert archive_options(folder, java, {}, spark, {}) == f"-Xlog:cds*=off -XX:SharedArchiveFile={file}"
    assert archive_options(None, java, {}, spark, {}) == ""
    assert archive_options(folder, None, {}, spark, {}) == ""
    assert registered == [jvm]


def test_with_jars_the_archive_of_spark_alone_is_used_until_theirs_is_there(folder, jvm, java, spark, registered):
    alone = added(folder, jvm).files[0]
    config = {"spark.jars": "/jars/lake.jar"}
    assert str(alone) in archive_options(folder, java, config, spark, {})
    with_jars = SparkJvm.of(java, spark, config, {})
    assert registered == [with_jars]
    assert str(added(folder, with_jars).files[0]) in archive_options(folder, java, config, spark, {})


@pytest.mark.parametrize(
    ("config", "environ"),
    [
        ({}, {"SPARK_SUBMIT_OPTS": "-XX:SharedArchiveFile=/mine.jsa"}),
        ({"spark.driver.extraJavaOptions": "-Da=b -Xshare:off"}, {}),
        ({"spark.driver.defaultJavaOptions": "-XX:AOTCache=/mine.aot"}, {}),
    ],
)
def test_an_archive_of_the_users_own_wins(folder, jvm, java, spark, registered, config, environ):
    added(folder, jvm)
    assert archive_options(folder, java, config, spark, environ) == ""
    assert registered == []


def test_the_options_stand_before_the_users_own_while_spark_starts_and_no_longer():
    environ = {"SPARK_SUBMIT_OPTS": "-Dmine=1"}
    with options_set("-XX:SharedArchiveFile=/a", environ):
        assert environ == {"SPARK_SUBMIT_OPTS": "-XX:SharedArchiveFile=/a -Dmine=1"}
    assert environ == {"SPARK_SUBMIT_OPTS": "-Dmine=1"}
    empty: dict[str, str] = {}
    with pytest.raises(ZeroDivisionError), options_set("-XX:SharedArchiveFile=/a", empty):
        raise ZeroDivisionError
    assert empty == {}


def test_none_is_made_unasked_on_machines_that_are_short_lived_or_full(folder, jvm, monkeypatch):
    assert may_make_itself(folder, jvm, {})
    assert may_make_itself(folder, jvm, {"CI": "false"})
    assert not may_make_itself(folder, jvm, {"CI": "true"})
    assert not may_make_itself(folder, jvm, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    free = making_module.LEAST_FREE - 1
    monkeypatch.setattr(making_module.shutil, "disk_usage", lambda path: type("Usage", (), {"free": free}))
    assert not may_make_itself(folder, jvm, {})


def test_none_is_made_unasked_where_others_can_write_or_the_last_try_failed(folder, jvm):
    folder.mkdir(parents=True)
    log_of(folder, jvm).write_text("java.lang.OutOfMemoryError")
    assert not may_make_itself(folder, jvm, {})
    os.utime(log_of(folder, jvm), (0, 0))
    assert may_make_itself(folder, jvm, {})
    folder.chmod(0o777)
    assert not may_make_itself(folder, jvm, {})
    assert not may_make_itself(Path("/proc/archives"), jvm, {})


def test_a_failure_is_an_error_that_names_the_log_and_leaves_nothing_else(folder, jvm):
    with pytest.raises(RivetError, match="RVT-526") as raised:
        make_archive(folder, jvm)  # these files are no Java
    log = log_of(folder, jvm)
    assert str(log) in str(raised.value.diagnostics[0].remediation)
    assert sorted(path.name for path in folder.iterdir()) == sorted([log.name, "making.lock"])


def test_the_doctor_tells_of_the_archive(folder, jvm, java, spark):
    def finding(**environ: str) -> tuple[str, str]:
        found = examine_archive("engine spark", folder, java, {}, spark, environ)
        return found.status, found.text

    without = "Spark starts slowly, without an archive of classes"
    assert finding() == ("ok", f"{without}; the next run makes one in {folder}")
    assert finding(CI="true") == ("ok", f"{without}; `rivet-dagster spark archive` makes one")
    file = added(folder, jvm).files[0]
    assert finding() == ("ok", f"Spark starts from an archive of classes, 0 MB: {folder / jvm.key}")
    file.chmod(0o600)
    file.write_text("")
    assert finding() == ("warn", f"{without}: {file} is damaged")
    file.with_name(store.DESCRIPTION).unlink()
    log_of(folder, jvm).write_text("java.lang.OutOfMemoryError")
    assert finding() == ("warn", f"{without}: it could not be made, see {log_of(folder, jvm)}")
    (spark / "conf").mkdir()
    (spark / "conf" / "hive-site.xml").write_text("")
    assert finding()[1].startswith(f"{without}: Java archives no classes while a folder with files")


def test_the_variable_is_the_one_that_the_documentation_names():
    text = (Path(__file__).parents[3] / "docs" / "spark-start.md").read_text()
    assert f"`{store.VARIABLE}`" in text
    assert "`class_archive`" in text


def test_without_a_project_an_archive_is_made_for_spark_alone(tmp_path, folder, java, monkeypatch, capsys):
    made = []

    def make(place: Path, jvm: SparkJvm) -> Archive:
        made.append(jvm)
        return added(place, jvm)

    monkeypatch.setattr("rivet_dagster.engines.pyspark.java.find_java", lambda environ: java)
    monkeypatch.setattr("rivet_dagster.cli.spark_command.make_archive", make)
    assert main(["-p", str(tmp_path), "spark", "archive", "--to", str(folder)]) == 0
    [jvm] = made
    assert (jvm.java, jvm.packages, jvm.jars) == (java, (), ())
    assert capsys.readouterr().out == f"engine spark: {folder / jvm.key}, 0 MB, for Java 17\n"


def test_a_command_for_an_archive_fails_where_they_are_off_or_cannot_be_written(tmp_path, java, monkeypatch, capsys):
    monkeypatch.setattr("rivet_dagster.engines.pyspark.java.find_java", lambda environ: java)
    monkeypatch.setenv("RIVET_CLASS_ARCHIVE", "false")
    assert main(["-p", str(tmp_path), "spark", "archive"]) == 1
    assert "archives of classes are turned off" in capsys.readouterr().err
    assert main(["-p", str(tmp_path), "spark", "archive", "--to", "/proc/archives"]) == 1
    assert "cannot be written in /proc/archives" in capsys.readouterr().err
