"""Redaction: which texts contain a secret, and how they are masked."""

from __future__ import annotations

import json
import pickle
import traceback
from urllib.parse import quote, quote_plus

import pytest

from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.convert import show
from rivet_dagster.model.finding import broken, doubtful
from rivet_dagster.secrets.redaction import Redactor, redacted, remember, without_secrets
from rivet_dagster.secrets.variables import expand

SECRET = "hun/ter+2 é="


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("jdbc:postgresql://ann:s3cret@db/sales", "jdbc:postgresql://db/sales"),
        ("s3a://KEY:s3/cr@et@bucket/x", "s3a://bucket/x"),
        ("sc://spark:15002/;token=s3cret;user_id=ann", "sc://spark:15002/;token=***;user_id=ann"),
        ("sc://spark/;x-gate=s3cret", "sc://spark/;x-gate=***"),
        ("https://h/x?sv=1&sig=s3cret%2F&se=2", "https://h/x?sv=1&sig=***&se=2"),
        ("https://h/x?token=s3cret", "https://h/x?token=***"),
        ("https://h/x?a=1&X-Amz-Signature=s3cret&X-Amz-Date=2", "https://h/x?a=1&X-Amz-Signature=***&X-Amz-Date=2"),
        ("https://h/x?key=s3cret", "https://h/x?key=***"),
        ("AccountName=a;AccountKey=s3cret/==;EndpointSuffix=c", "AccountName=a;AccountKey=***;EndpointSuffix=c"),
        ("Authorization: Bearer s3cret.x-y", "Authorization: Bearer ***"),
        ("user=ann, password=s3cret,s3cret, ssl=true", "user=ann, password=***, ssl=true"),
        ("{\"password\": \"s3cret s3cret\", 'secret_key': 's3cret'}", "{\"password\": ***, 'secret_key': ***}"),
        ("fs.s3a.secret.key = s3cret", "fs.s3a.secret.key = ***"),
        ("-Xmx1g -Dapi.key=s3cret -Da.b=c", "-Xmx1g -Dapi.key=*** -Da.b=c"),
    ],
)
def test_texts_in_the_form_of_a_secret_are_masked(text, left):
    assert redacted(text) == redacted(left) == left


@pytest.mark.parametrize(
    "text",
    [
        "hdfs://namenode:8020/home/x@y",
        "spark://host:7077",
        "the batch has unequal rows of one key: customer_key=42, key=7",
        "fs.s3a.aws.credentials.provider=org.apache.Provider, max.token.length=5",
        "unexpected token: ')'; the password is missing",
        "WHERE secret IS NULL AND tokens > 5",
        "SELECT pass = true, cookie = 'x' FROM visits",
        "spark.hadoop.fs.s3a.secret.key=*********(redacted)",
    ],
)
def test_ordinary_texts_are_unchanged(text):
    assert redacted(text) == text


@pytest.mark.parametrize(
    "form", [SECRET, quote(SECRET), quote(SECRET, safe="").lower(), quote_plus(SECRET), json.dumps(SECRET)[1:-1]]
)
def test_a_value_is_masked_in_all_its_forms(form):
    remember(SECRET, "${PASSWORD}")
    assert redacted(f"file:/lake/{form}/x") == "file:/lake/${PASSWORD}/x"


@pytest.mark.parametrize(
    ("value", "text", "left"),
    [
        ("data", "database data_1 /data/data.csv 'data'", "database data_1 /${V}/${V}.csv '${V}'"),
        ("4444", "14444 rows, pin 4444, a%2F4444", "14444 rows, pin ${V}, a%2F${V}"),
        ("hunter22", "xhunter22x", "x${V}x"),
        ("abc", "abc", "abc"),
        ("true", "true", "true"),
        (" longvalue\n", "a longvalue.", "a ${V}."),
        ("first line\nsecond line", "x: second line", "x: ${V}"),
        ("sc://spark/;token=tokn", "header tokn", "header ${V}"),
    ],
)
def test_which_values_are_masked(value, text, left):
    redactor = Redactor()
    redactor.remember(value, "${V}")
    assert redactor.redacted(text) == redactor.redacted(left) == left


def test_the_longest_value_wins_and_names_of_variables_are_not_masked():
    for value, shown in (("SECRET12", "${SECRET12}"), ("SECRET12345", "${LONG}")):
        remember(value, shown)
    assert redacted("SECRET12345 SECRET12") == "${LONG} ${SECRET12}"
    assert redacted(redacted("SECRET12")) == "${SECRET12}"


def test_expanding_records_values_and_literal_secrets_but_not_locations():
    options = {
        "path": "${LAKE}/${ACCESS_TOKEN}",
        "remote": "sc://${HOST}/;token=${TOKEN}",
        "config": {"spark.x": "${X}", "fs.s3a.secret.key": "literal1", "spark.local.dir": "${SCRATCH}"},
    }
    environ = {
        "LAKE": "/mnt/lake",
        "ACCESS_TOKEN": "path/token",
        "HOST": "spark.example",
        "TOKEN": "to/ken",
        "X": "hidden",
    }
    expand(options, environ | {"SCRATCH": "/scratch"})
    text = "/mnt/lake/path/token at spark.example, to%2Fken hidden literal1 in /scratch"
    assert redacted(text) == "/mnt/lake/${ACCESS_TOKEN} at ${HOST}, ${TOKEN} ${X} *** in /scratch"


def test_every_output_is_redacted():
    remember("hunter2222")
    long = "x" * 40 + "hunter2222" * 3
    diagnostic = Diagnostic("RVT-502", "no hunter2222", remediation="Try hunter2222.")
    error = RivetError("RVT-502", "no hunter2222", remediation="Try hunter2222.")
    many = RivetError.of([diagnostic, diagnostic])
    texts = [str(diagnostic), repr(diagnostic), json.dumps(diagnostic.to_dict()), str(error), repr(error), str(many)]
    texts += [
        str(pickle.loads(pickle.dumps(error))),
        show(long),
        repr(broken("x", error)),
        repr(doubtful("x", long, long)),
    ]
    for text in texts:
        assert "hunter" not in text
        assert "***" in text


def test_causes_of_an_error_are_redacted_too():
    secret = "hunter2222"

    class Odd(ValueError):
        def __str__(self) -> str:
            return f"odd {secret}"

    def fail() -> None:
        odd = Odd()
        odd.add_note(f"note {secret}")
        try:
            raise KeyError(secret) from odd
        except KeyError:
            raise RivetError("RVT-502", secret)  # noqa: B904  # what it was raised in is shown, too

    remember(secret)
    with pytest.raises(RivetError) as caught:
        fail()
    shown = without_secrets(caught.value)
    assert shown is caught.value
    text = "".join(traceback.format_exception(shown))
    assert secret not in text
    assert text.count("in fail") == 2  # the traceback remains
    for expected in ("Odd: odd ***\nnote ***\n", "KeyError: '***'\n", "RVT-502 ***\n"):
        assert expected in text


def test_an_error_without_secrets_is_unchanged():
    error = ValueError("plain")
    error.__cause__ = error.__context__ = KeyError("x")
    assert without_secrets(error) is error
    assert isinstance(error.__cause__, KeyError)
