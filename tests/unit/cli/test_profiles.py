"""``catalog`` and ``engine``: what is listed and described, and entries written into a file that stays as it is."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from codecs import BOM_UTF8

import pytest
import yaml
from support.folders import ProjectFolder, source

from rivet_dagster import compile_directory
from rivet_dagster.cli.main import main
from rivet_dagster.errors import RivetError
from rivet_dagster.project.profile_edit import with_entry

PROFILES = """\
# What the laptop uses.
default:
  catalogs:
    raw:
      type: filesystem
      path: data    # as it came
      format: csv

  # one is enough
  engines:
    - {name: spark, type: pyspark, catalogs: [raw]}   # embedded

dev: {catalogs: {}, engines: []}
"""
LAKE = {"type": "filesystem", "path": "${LAKE}/x, y"}
SPARK = {"type": "pyspark", "catalogs": ["raw"]}


@pytest.fixture
def shop(tmp_path):
    files = {"data/orders.csv": "id\n1\n", "sources/orders.yaml": source("orders.csv", "id BIGINT")}
    return ProjectFolder(tmp_path, {**files, "profiles.yaml": PROFILES})


@pytest.fixture
def cli(shop, capsys):
    """Return a function that calls the program in the shop, and returns its exit code, stdout and stderr."""

    def call(*arguments):
        code = main([*arguments, "-p", str(shop.root)])
        return code, *capsys.readouterr()

    return call


def test_an_entry_is_one_line_and_all_else_stays(shop, cli):
    file = shop.root / "profiles.yaml"
    code, out, err = cli("catalog", "create", "lake", "--type", "filesystem", "--option", "path=lake")
    assert (code, "the profile 'default' has 'lake' in `catalogs` now" in out, err) == (0, True, "")
    options = ("--option", "master=local[2]", "--option", "config={spark.sql.shuffle.partitions: 4}")
    assert cli("engine", "create", "large", "--type", "pyspark", "--catalogs", "raw, lake", *options)[0] == 0
    lines = file.read_text().splitlines()
    added = [line for line in lines if line not in PROFILES.splitlines()]
    assert added == [
        "    lake: {type: filesystem, path: lake}",
        "    - {name: large, type: pyspark, catalogs: [raw, lake], master: 'local[2]', "
        "config: {spark.sql.shuffle.partitions: 4}}",
    ]
    assert [line for line in lines if line not in added] == PROFILES.splitlines()
    shop.write({"sinks/out.yaml": "type: sink\ncatalog: lake\ntable: out\nupstream: orders\nengine: large\n"})
    shop.write({"sources/orders.yaml": {**source("orders.csv", "id BIGINT"), "engine": "large"}})
    assert compile_directory(shop.root).raise_errors().target("out").catalog == "lake"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ("catalog", "create", "raw", "--type", "filesystem", "--option", "path=x"),
            10,
            "an entry 'raw' in `catalogs`",
        ),
        (("catalog", "create", "lake", "--type", "filesytem"), 10, "did you mean 'filesystem'?"),
        (("catalog", "create", "lake", "--type", "filesystem"), 10, "`path`"),
        (("catalog", "create", "lake", "--type", "filesystem", "--option", "pth=x"), 10, "did you mean 'path'?"),
        (("catalog", "create", "lake", "--type", "filesystem", "--option", "path"), 10, "KEY=VALUE"),
        (("catalog", "create", "My Lake", "--type", "filesystem", "--option", "path=x"), 10, "My Lake"),
        (("catalog", "create", "lake"), 10, "Missing option '--type'"),
        (("engine", "create", "spark", "--type", "pyspark"), 10, "an entry 'spark' in `engines`"),
        (("engine", "create", "large", "--type", "pyspark", "--catalogs", "rw"), 10, "did you mean 'raw'?"),
        (("engine", "create", "large", "--type", "pyspark", "--profile", "devl"), 10, "did you mean 'dev'?"),
        (("catalog", "describe", "rw"), 10, "did you mean 'raw'?"),
    ],
)
def test_what_is_wrong_is_refused_and_the_file_stays(shop, cli, arguments, code, words):
    found, out, err = cli(*arguments)
    assert (found, out, words in err) == (code, "", True), err
    assert (shop.root / "profiles.yaml").read_text() == PROFILES


def test_a_byte_order_mark_stays(shop, cli):
    file = shop.root / "profiles.yaml"
    file.write_bytes(BOM_UTF8 + PROFILES.encode())
    assert cli("catalog", "create", "lake", "--type", "filesystem", "--option", "path=lake")[0] == 0
    content = file.read_bytes()
    assert content.replace(b"    lake: {type: filesystem, path: lake}\n", b"") == BOM_UTF8 + PROFILES.encode()


CREATE_LAKE = ("catalog", "create", "lake", "--type", "filesystem", "--option", "path=lake")


def failing_with(number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("step", ["fchmod", "fsync", "replace"])
def test_a_failing_write_leaves_the_old_file_whole(shop, cli, monkeypatch, step):
    before = sorted(os.listdir(shop.root))
    monkeypatch.setattr(f"rivet_dagster.file_replacement.os.{step}", failing_with(errno.ENOSPC))
    code, out, err = cli(*CREATE_LAKE)
    assert (code, out) == (10, "")
    assert f"RVT-108 cannot write {shop.root / 'profiles.yaml'}: No space left on device" in err
    assert (shop.root / "profiles.yaml").read_text() == PROFILES
    assert sorted(os.listdir(shop.root)) == before


@pytest.mark.slow
def test_a_write_beyond_the_limit_of_the_process_leaves_the_old_file_whole(shop):
    before = sorted(os.listdir(shop.root))
    limited = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200));"
    limited += "from rivet_dagster.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", limited, "-p", str(shop.root), *CREATE_LAKE]
    # Compiled modules, also those of processes that this one starts, would be cut off for all that come after.
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert (done.returncode, done.stdout) == (10, "")
    assert "profiles.yaml: File too large" in done.stderr
    assert (shop.root / "profiles.yaml").read_text() == PROFILES
    assert sorted(os.listdir(shop.root)) == before


def test_the_mode_stays_and_of_a_link_the_file_behind_it_is_replaced(shop, cli):
    link, file = shop.root / "profiles.yaml", shop.root / "shared" / "team.yaml"
    file.parent.mkdir()
    link.rename(file)
    file.chmod(0o640)
    link.symlink_to("shared/team.yaml")
    assert cli(*CREATE_LAKE)[0] == 0
    assert (os.readlink(link), stat.S_IMODE(file.stat().st_mode)) == ("shared/team.yaml", 0o640)
    assert "    lake: {type: filesystem, path: lake}\n" in file.read_text()
    assert os.listdir(file.parent) == ["team.yaml"]


FORMS = {
    "flow profile": "p: {catalogs: {raw: {type: f}}, engines: [{name: s, type: t}]}",
    "no section, no newline at the end": "p:\n  default_engine: s",
    "list at the indentation of its key": "p:\n  engines:\n  - {name: s, type: t}\n",
    "empty values": "p:\n  catalogs:\n  engines:\n# end\n",
    "empty collections": "p:\n  catalogs: {}  # none\n  engines: []\n",
    "engines by name": "p:\n  catalogs: {raw: {type: f}}\n  engines:\n    s: {type: t}\n",
    "carriage returns": "p:\r\n  catalogs:\r\n    a: {type: b}\r\n  engines: []\r\n",
    "block text": "p:\n  catalogs:\n    a:\n      note: |\n        one\n        two\n\n  engines: []\n",
    "flow over lines": "p:\n  catalogs: {\n    a: {type: b},\n    c: {type: d},\n  }\n  engines: [\n  ]\n",
    "another profile behind": "p:\n  engines:\n    - name: s\n      type: t\n\nq: {}\n",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_an_entry_fits_each_form_of_file(text):
    for section, entry in (("catalogs", LAKE), ("engines", SPARK)):
        new = with_entry(text, "profiles.yaml", "p", section, "new", entry)
        before, after = yaml.safe_load(text), yaml.safe_load(new)
        added = after["p"].pop(section)
        old = before["p"].pop(section, None)
        assert after == before
        if isinstance(added, list):
            assert added == [*(old or []), {"name": "new", **entry}]
        else:
            assert added == {**(old or {}), "new": entry}
        kept = iter(new)
        assert all(character in kept for character in text)  # nothing was taken away, and the order is the same


def test_an_entry_shared_by_profiles_is_not_written_to():
    text = "a: &a {catalogs: {raw: {type: f}}, engines: []}\np: *a\n"
    with pytest.raises(RivetError, match=r"RVT-104 p\.yaml: `catalogs` of the profile 'p'"):
        with_entry(text, "p.yaml", "p", "catalogs", "new", LAKE)


@pytest.mark.slow
def test_lists_tell_what_is_reachable_and_no_secrets(shop, cli, monkeypatch):
    monkeypatch.setenv("NOWHERE", str(shop.root / "nowhere"))
    secret = "      options: {access_key: AKIDEXAMPLE, secret_key: hunter2hunter2, region: eu}\n"
    more = f"    gone: {{type: filesystem, path: '${{NOWHERE}}'}}\n    far:\n      type: filesystem\n      path: s3a://b/x\n{secret}"
    shop.write({"profiles.yaml": PROFILES.replace("\n  # one", more + "\n  # one", 1)})
    code, out, err = cli("catalog", "list", "--format", "json")
    found = {catalog["name"]: catalog for catalog in json.loads(out)["catalogs"]}
    assert (code, err, list(found)) == (0, "", ["raw", "gone", "far", "workspace"])
    assert (found["raw"]["type"], found["raw"]["reachable"], found["gone"]["reachable"]) == ("filesystem", True, False)
    assert found["gone"]["options"] == {"path": "${NOWHERE}"}
    assert "hunter2hunter2" not in out
    code, out, err = cli("catalog", "list")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert (code, "hunter2hunter2" in out + err) == (0, False)
    assert lines["raw"].split()[1:] == ["filesystem", "path=data,", "format=csv", "reachable"]
    assert "RVT-403" in lines["gone"]
    code, out, _ = cli("catalog", "describe", "raw", "--format", "json")
    described = json.loads(out)
    assert (code, described["tables"], described["options"]["format"]) == (0, {"orders": "orders.csv"}, "csv")
    assert "merge" in described["write_strategies"]
    code, out, _ = cli("engine", "list", "--format", "json")
    (engine,) = json.loads(out)["engines"]
    assert (code, engine["name"], engine["type"], engine["catalogs"]) == (0, "spark", "pyspark", ["raw"])
