"""Translations that one process leaves to the next."""

from pathlib import Path

import pytest

from rivet_dagster.engines import kept_translations
from rivet_dagster.engines.kept_translations import FILE, KeptTranslations
from rivet_dagster.engines.translated_queries import _translate, translate_query
from rivet_dagster.errors import RivetError
from rivet_dagster.project import cache_file
from rivet_dagster.sql import translation

SQL = "SELECT a + 1 AS b FROM t"
INT, BIGINT = ({"t": (("a", kind),)} for kind in ("int", "bigint"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file, in the folder that a compilation has made."""
    (tmp_path / FILE).parent.mkdir(parents=True)
    return tmp_path / FILE


@pytest.fixture
def translated(monkeypatch) -> list[str]:
    """The queries that are translated."""
    made, translate = [], translation.translate
    monkeypatch.setattr(translation, "translate", lambda sql, *others: made.append(sql) or translate(sql, *others))
    return made


def in_new_process(root: Path, sql: str = SQL, tables=INT, engine="DuckDB", parameters=None) -> str:
    _translate.cache_clear()
    return translate_query(sql, engine, tables, parameters or {}, KeptTranslations(root))


def test_the_next_process_takes_a_translation_from_the_file(tmp_path, file, translated):
    first = in_new_process(tmp_path)
    assert in_new_process(tmp_path) == first
    assert translated == [SQL]
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "other",
    [
        {"sql": "SELECT a + 2 AS b FROM t"},
        {"tables": BIGINT},
        {"engine": "Sail"},
        {"sql": "SELECT :v AS b FROM t", "parameters": {"v": 1}},
        {"sql": "SELECT :v AS b FROM t", "parameters": {"v": "x"}},
    ],
)
def test_each_thing_that_a_translation_depends_on_tells_it_apart(tmp_path, file, translated, other):
    in_new_process(tmp_path)
    in_new_process(tmp_path, "SELECT :v AS b FROM t", parameters={"v": 1.5})
    in_new_process(tmp_path, **other)
    assert len(translated) == 3


def test_the_code_of_another_version_makes_it_anew(tmp_path, file, translated, monkeypatch):
    in_new_process(tmp_path)
    size = file.stat().st_size
    monkeypatch.setattr(cache_file, "_head", lambda: b"\nanother ")
    in_new_process(tmp_path)
    in_new_process(tmp_path)
    assert translated == [SQL, SQL]
    assert file.stat().st_size < 1.1 * size  # nothing of the former is left


@pytest.mark.parametrize("damage", [lambda content: content[:-3], lambda content: b"x" + content[9:], lambda _: b""])
def test_a_damaged_file_is_replaced(tmp_path, file, translated, damage):
    first = in_new_process(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    assert [in_new_process(tmp_path), in_new_process(tmp_path)] == [first, first]
    assert translated == [SQL, SQL]


def test_what_is_refused_is_refused_by_each_process(tmp_path, file, translated):
    for _ in range(2):
        with pytest.raises(RivetError, match="RVT-329"):
            in_new_process(tmp_path, "SELECT soundex(CAST(a AS STRING)) AS s FROM t TABLESAMPLE (3 ROWS)")
    assert len(translated) == 2
    assert not file.exists()


def test_the_file_does_not_grow_beyond_its_bound(tmp_path, file, monkeypatch):
    monkeypatch.setattr(kept_translations, "MOST_BYTES", 4000)
    kept = KeptTranslations(tmp_path)
    for number in range(50):
        kept.put(str(number), "SELECT 1")
        assert file.stat().st_size <= 4000
    assert KeptTranslations(tmp_path).get("49") == "SELECT 1"
    assert KeptTranslations(tmp_path).get("0") is None


def test_two_processes_add_to_one_file(tmp_path, file):
    KeptTranslations(tmp_path).put("a", "SELECT 0")
    one, other = KeptTranslations(tmp_path), KeptTranslations(tmp_path)
    assert one.get("b") is other.get("b") is None
    one.put("b", "SELECT 1")
    other.put("c", "SELECT 2")
    assert [KeptTranslations(tmp_path).get(text) for text in "abc"] == ["SELECT 0", "SELECT 1", "SELECT 2"]


def test_without_the_folder_nothing_is_kept(tmp_path, translated):
    assert in_new_process(tmp_path) == in_new_process(tmp_path)
    assert len(translated) == 2
    assert not list(tmp_path.iterdir())
