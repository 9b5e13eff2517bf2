import copy
import pickle

import pytest
import yaml

from rivet_dagster.project import yaml_text
from rivet_dagster.project.yaml_text import Located, YamlError, plain, read_yaml


@pytest.fixture(params=["C", "Python"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with and without libyaml."""
    if request.param == "Python":
        monkeypatch.setattr(yaml_text, "_Loader", yaml.SafeLoader)
    elif not yaml.__with_libyaml__:
        pytest.skip("PyYAML was built without libyaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NO", "NO"), ("on", "on"), ("yes", "yes"), ("Off", "Off"), ("y", "y"),
        ("true", True), ("True", True), ("TRUE", True), ("false", False), ("tRUE", "tRUE"),
        ("012", 12), ("0o14", 12), ("0x1F", 31), ("-7", -7), ("+7", 7), ("0b11", "0b11"), ("1_000", "1_000"),
        ("12:30", "12:30"), ("2024-01-01", "2024-01-01"), ("190:20:30", "190:20:30"),
        ("1.5", 1.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("1.e+3", 1000.0), ("-.inf", float("-inf")),
        ("~", None), ("", None), ("null", None), ("NULL", None), ("nULL", "nULL"),
        ("'012'", "012"), ('"true"', "true"), ("|\n  1\n", "1\n"), (">-\n  a\n  b\n", "a b"),
        ("=", "="), ("1.2.3", "1.2.3"), ("-", [None]), (".", "."), ("1e", "1e"),
    ],
)  # fmt: skip
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    read = read_yaml(f"key: {text}" if value != [None] else text)
    found = read["key"] if isinstance(read, Located) else read
    assert found == value
    assert type(found) is type(value)


def test_not_a_number() -> None:
    assert str(read_yaml(".nan")) == "nan"


def test_nothing_is_none() -> None:
    assert read_yaml("") is None
    assert read_yaml("# only a comment\n") is None


def test_lines_of_keys_and_of_the_text_of_values() -> None:
    text = "# first\na: 1\nb:\n  c: |  # a note\n\n    text\n  d: {e: 1,\n      f: 2}\n  g:\n    word\n"
    value = read_yaml(text, first_line=11)
    assert (value.line, value.lines) == (12, {"a": 12, "b": 13})
    inner = value["b"]
    assert (inner.line, inner.lines) == (14, {"c": 14, "d": 17, "g": 19})
    assert inner.starts == {"c": 15, "d": 17, "g": 20}
    assert inner["d"].lines == {"e": 17, "f": 18}


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings(ending: str) -> None:
    assert read_yaml(ending.join(["a: 1", "b: 2", ""])).lines == {"a": 1, "b": 2}


def test_aliases_share_the_value_of_their_anchor() -> None:
    assert read_yaml("a: &x {k: 1}\nb: *x\nc: &x 2\nd: *x") == {"a": {"k": 1}, "b": {"k": 1}, "c": 2, "d": 2}


def test_copies_preserve_the_lines() -> None:
    value = read_yaml("a: {b: 1}")
    for other in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert (other, other["a"].lines, other.starts) == (value, {"b": 1}, {"a": 1})
    assert type(plain(value)["a"]) is dict


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3", 3, "key 'a' is repeated, first given on line 1"),
        ("{a: 1, a: 1}", 1, "repeated"),
        ("a: b: c", 1, "cannot be read"),
        ("a: [1\n", 1, "cannot be read"),
        ("a: 1\n b: 2", 2, "cannot be read"),
        ("a: 1\n1: b", 2, "put numbers, true, false and null in quotes"),
        ("null: b", 1, "key must be a text"),
        ("? [a]\n: b", 1, "key must be a text"),
        ("{{x}}: b", 1, "key must be a text"),
        ("a: 1\n<<: {b: 2}", 2, "merge key"),
        ("a: &x [*x]", 1, "inside its own anchor"),
        ("a: *x", 1, "no anchor"),
        ("a: 1\nb: !!python/object:os.system x", 2, "tags"),
        ("a: !!str 1", 1, "tags"),
        ("a: !x!y z", 1, ""),
        ("a: 1\n---\nb: 2", 2, "second document"),
        ("a: 1\nb: \x00", 2, "U+0000"),
        ("a: \u2028", 1, "U+2028"),
        ('a: "\\ud800"', 1, ""),
        ("a: " + "9" * 5000, 1, "digits"),
        ("a: 0x" + "f" * 5000, 1, "digits"),
        ("[" * 200, 1, "deep"),
        ("- " * 20_000, 1, "deep"),
        (BOMB, 5, "aliases stand for"),
    ],
)
def test_errors_name_the_line(text: str, line: int, words: str) -> None:
    with pytest.raises(YamlError) as caught:
        read_yaml(text)
    assert caught.value.line == line
    assert words in caught.value.message


@pytest.mark.parametrize("text", ["p: *s3cret", "p: !s3cret", "p: !s3!cret x", "p: 'a's3cret", "p: @s3cret", "p: {s3"])
def test_errors_show_no_value(text: str) -> None:
    with pytest.raises(YamlError) as caught:
        read_yaml(text)
    assert "s3" not in str(caught.value)
