"""``rivet-dagster versions``, without an engine."""

import pytest
from support.folders import ProjectFolder, sink
from support.tables import catalog, fill, ids, publish

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.cli.main import main


@pytest.fixture
def folder(tmp_path) -> ProjectFolder:
    files = {"joints/numbers.sql": "SELECT 1 AS id", "sinks/out.yaml": sink("orders", "numbers")}
    return ProjectFolder(tmp_path, files)


@pytest.fixture
def lake(folder) -> FilesystemCatalog:
    return catalog(folder.root, "lake")


def call(folder: ProjectFolder, capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["-p", str(folder.root), "versions", *arguments])
    return code, *capsys.readouterr()


def test_list_shows_all_versions(folder, lake, capsys):
    assert call(folder, capsys, "list", "out") == (0, "out: nothing is published\n", "")
    first = publish(lake, [1, 2], run="run-1/out")
    second = publish(lake, list(range(1234)), run="run-2/out")
    transaction = fill(lake.begin("orders"), [3])
    transaction.withhold()
    code, out, _ = call(folder, capsys, "list", "out")
    assert code == 0
    words = [line.split() for line in out.splitlines()]
    assert [(line[0], line[1], line[-1]) for line in words] == [
        (second.version, "current", "run-2/out"),
        (first.version, "older", "run-1/out"),
        (transaction.version, "withheld", "row"),
    ]
    assert "1,234 rows" in out


def test_rollback_publishes_the_previous_version(folder, lake, capsys):
    first = publish(lake, [1, 2])
    publish(lake, [3])
    code, out, _ = call(folder, capsys, "rollback", "out")
    assert (code, ids(folder.root / "lake/orders")) == (0, [1, 2])
    assert out.endswith(f"now, 2 rows (rollback to {first.version})\n")


def test_rollback_without_an_older_one(folder, lake, capsys):
    assert "nothing is published" in call(folder, capsys, "rollback", "out")[2]
    publish(lake, [1])
    code, _, err = call(folder, capsys, "rollback", "out")
    assert (code, err.split()[0]) == (1, "RVT-408")
    assert "versions: 5" in err
    assert ids(folder.root / "lake/orders") == [1]


def test_withheld_versions_are_published_or_dropped(folder, lake, capsys):
    publish(lake, [1])
    one, two = (fill(lake.begin("orders"), [n]) for n in (2, 3))
    one.withhold()
    two.withhold()
    assert call(folder, capsys, "drop", "out", one.version)[0] == 0
    assert call(folder, capsys, "publish", "out", two.version)[0] == 0
    assert ids(folder.root / "lake/orders") == [3]
    assert [v.state for v in lake.versions("orders")] == ["current", "older"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("list", "uot"), 1, "no joint is named 'uot'; did you mean 'out'?"),
        (("list", "numbers"), 1, "'numbers' is not stored"),
        (("publish", "out"), 10, "RVT-110 Missing argument 'VERSION'"),
        (("publish", "out", "00000001-00000000"), 1, "has no withheld version"),
        (("publish", "out", "../b/00000001-00000000"), 1, "'orders' has no version '../b/00000001-00000000'"),
        (("drop", "out", "../b/00000001-00000000"), 1, "'orders' has no version '../b/00000001-00000000'"),
        (("rollback", "out", "../b/00000001-00000000"), 1, "has no older version '../b/00000001-00000000'"),
        (("rollback", "out", "00000001-00000000"), 1, "has no older version"),
        (("undo", "out"), 10, "undo"),
    ],
)
def test_wrong_commands_are_errors(folder, lake, capsys, arguments, code, words):
    publish(lake, [1])
    found, out, err = call(folder, capsys, *arguments)
    assert (found, out) == (code, "")
    assert words in err
