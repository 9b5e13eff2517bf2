import pytest

from rivet_dagster.entry_points import expand_variables
from rivet_dagster.errors import RivetError
from rivet_dagster.secrets.variables import MalformedReferenceError, expand, references


@pytest.mark.parametrize(
    ("text", "names", "expanded"),
    [
        ("plain $HOME $", (), "plain $HOME $"),
        ("${A}", ("A",), "one"),
        ("${A}-${B}${A}", ("A", "B", "A"), "one-${A}one"),
        ("$${A}", (), "${A}"),
        ("$$${A}", (), "$${A}"),
        ("a $${ b", (), "a ${ b"),
    ],
)
def test_references(text: str, names: tuple[str, ...], expanded: str) -> None:
    assert references(text) == names
    assert expand(text, {"A": "one", "B": "${A}"}) == expanded  # references in values of variables are not expanded


@pytest.mark.parametrize("text", ["${", "${}", "${a b}", "${A:-x}", "${1}", "x ${A"])
def test_malformed(text: str) -> None:
    with pytest.raises(MalformedReferenceError, match="no \\$\\{NAME\\}"):
        references(text)


def test_expand_handles_nested_values_and_leaves_others_unchanged() -> None:
    expanded = expand({"a": ["${A}", 1, {"${A}": None}], "b": True}, {"A": "x"})
    assert expanded == {"a": ["x", 1, {"${A}": None}], "b": True}


def test_expand_names_all_missing_variables() -> None:
    with pytest.raises(RivetError, match="variable A, B is not set") as caught:
        expand_variables({"a": "${B}", "b": ["${A}", "${C}"]}, {"C": "s3cret"})
    assert caught.value.code == "RVT-107"
    assert "s3cret" not in str(caught.value)
