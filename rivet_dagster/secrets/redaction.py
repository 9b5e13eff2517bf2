"""Redaction of secrets: every text that leaves the process passes ``redacted``.

Two things count as secrets:

- the values passed to ``remember``: those of expanded ``${VAR}``, and literal values of a key like ``password``;
- text that has the form of a secret: passwords in URLs, tokens and signatures in query strings, ``password=...``.

Names that hold secrets, of options in a profile and of parameters in any text, are known by their words. A value of
four to seven characters is redacted only as a whole word, so that the value ``data`` leaves ``database`` alone; a
longer one is redacted anywhere. The longest match wins, and percent-encoded forms match, too. Shorter values, ``true``,
``false``, ``null`` and ``none`` are not secrets.
"""

from __future__ import annotations

import json
import re
from threading import Lock

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = ("password", "passwd", "passphrase", "secret", "token", "credential", "signature")
_ABBREVIATIONS = frozenset({"pwd", "sig"})
_AT_THE_END = frozenset({"authorization", "cookie", "pass"})
_KINDS_OF_KEYS = frozenset(
    "access account api auth encryption master private secret service shared signing storage".split()
)
_OTHER_KEYS = frozenset(
    "business cluster foreign group join map natural order partition primary public row sort surrogate unique".split()
)
_ABOUT = frozenset(
    "algorithm class column columns count dedup dir enable enabled endpoint exchange expires expiry file format "
    "interval length lifetime limit location max min mode name path policy prefix provider providers ref refresh "
    "renewal required size store timeout ttl type uri url version".split()
)
"""Words after a secret's word which say that the value only describes the secret, as in ``credentials.provider``."""


def names_secret(name: str) -> bool:
    """Return whether the value of an option of this name is a secret, as that of a header ``Authorization`` is.

    >>> [name for name in ("password", "fs.s3a.secret.key", "accessKey", "keyStorePassword") if names_secret(name)]
    ['password', 'fs.s3a.secret.key', 'accessKey', 'keyStorePassword']
    >>> [name for name in ("spark.executorEnv.DB_PASS", "header.Cookie", "pass_through") if names_secret(name)]
    ['spark.executorEnv.DB_PASS', 'header.Cookie']
    >>> [name for name in ("unique_key", "key_columns", "credentials.provider", "keyStore") if names_secret(name)]
    []
    """
    words = _words(name)
    return not _AT_THE_END.isdisjoint(words[-1:]) or any(
        (_is_secret_word(word) or (word.endswith(("key", "keys")) and _before(words, at) not in _OTHER_KEYS))
        and _behind(words, at) not in _ABOUT
        for at, word in enumerate(words)
    )


def names_secret_parameter(name: str, before: str = "") -> bool:
    """Return whether ``value`` in ``name=value``, after the character ``before``, is a secret.

    Many columns are named ``key``, so that ``key`` by itself is a secret only in the query string of a URL.

    >>> names_secret_parameter("X-Amz-Signature"), names_secret_parameter("customer_key")
    (True, False)
    >>> names_secret_parameter("key"), names_secret_parameter("key", "?")
    (False, True)
    """
    words = _words(name)
    return (name == "key" and before != "") or any(
        (_is_secret_word(word) or _is_secret_key(words, at)) and _behind(words, at) not in _ABOUT
        for at, word in enumerate(words)
    )


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _is_secret_word(word: str) -> bool:
    return word in _ABBREVIATIONS or any(secret in word for secret in _SECRET_WORDS)


def _is_secret_key(words: list[str], at: int) -> bool:
    word = words[at].removesuffix("s")
    return word.endswith("key") and (word[:-3] or _before(words, at)) in _KINDS_OF_KEYS


def _before(words: list[str], at: int) -> str:
    return words[at - 1] if at else ""


def _behind(words: list[str], at: int) -> str:
    """Return the next word that does not itself name a secret."""
    following = (word for word in words[at + 1 :] if not _is_secret_word(word) and not word.endswith("key"))
    return next(following, "")


MASK = "***"
"""The text shown instead of a secret; the value of a ``${VAR}`` is shown as ``${VAR}``."""

_SHORTEST, _ANYWHERE = 4, 8
_NO_SECRETS = frozenset({"true", "false", "null", "none"})


class Redactor:
    """The secrets known to a process.

    >>> redactor = Redactor()
    >>> redactor.remember("pa/ss", "${PASSWORD}")
    >>> redactor.redacted("login pa/ss failed: jdbc:pg://db/sales?user=ann&password=pa%2Fss")
    'login ${PASSWORD} failed: jdbc:pg://db/sales?user=ann&password=${PASSWORD}'
    """

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        self._known: tuple[re.Pattern[str], list[str]] | None = None
        self._lock = Lock()

    def remember(self, value: str, shown: str = MASK) -> None:
        """Show ``shown`` instead of ``value`` from now on, and of each line of it and each secret inside it."""
        lines = [line for line in value.splitlines() if len(line.strip()) >= _ANYWHERE]
        values = {value, *lines, *secrets_in(value)} if len(lines) > 1 else {value, *secrets_in(value)}
        new = {text: shown for part in values if _is_secret(text := part.strip()) and text not in self._shown}
        if not new:
            return
        with self._lock:
            self._shown |= new
            # Of two values with the same beginning, the longer must be tried first.
            ordered = sorted(self._shown, key=lambda text: (-len(text), text))
            replacements = ["", *(self._shown[text] for text in ordered)]
            # References come first: the name of a variable may also be a secret value.
            forms = [_REFERENCE, *map(_form, ordered)]
            self._known = re.compile("|".join(f"({form})" for form in forms)), replacements

    def redacted(self, text: str) -> str:
        """Return ``text`` without secrets; redacting the result again changes nothing."""
        if self._known is not None:
            pattern, replacements = self._known
            text = pattern.sub(lambda match: replacements[(match.lastindex or 1) - 1] or match[0], text)
        return without_shapes(text)


def without_shapes(text: str) -> str:
    """Return ``text`` without parts that have the form of a secret, whatever values this process knows.

    >>> without_shapes("AccountKey=abc==;EndpointSuffix=core, Authorization: Bearer abcdef")
    'AccountKey=***;EndpointSuffix=core, Authorization: Bearer ***'
    """
    for shape, replacement in _SHAPES:
        text = shape.sub(replacement, text)
    return text


_process = Redactor()


def remember(value: str, shown: str = MASK) -> None:
    """Redact ``value`` in every text of this process from now on; ``shown`` replaces it."""
    _process.remember(value, shown)


def redacted(text: str) -> str:
    """Return ``text`` without secrets.

    >>> redacted("cannot open sc://spark:15002/;token=abc, nor s3://key:word@lake/raw?sig=x%2Fy")
    'cannot open sc://spark:15002/;token=*** nor s3://lake/raw?sig=***'
    """
    return _process.redacted(text)


def secrets_in(text: str) -> set[str]:
    """Return the parts of ``text`` that have the form of a secret.

    >>> sorted(secrets_in("sc://spark/;token=abcd;user_id=ann;x-gate=efgh"))
    ['abcd', 'efgh']
    """
    secrets = {match["secret"] for shape in (_USER, _BEARER) for match in shape.finditer(text)}
    for match in _ASSIGNED.finditer(text):
        if names_secret_parameter(match["name"], match["before"]):
            secrets.add(match["secret"].strip("\"'"))
    for match in _CONNECT.finditer(text):
        pairs = (pair.partition("=") for pair in match["secret"].split(";"))
        secrets.update(value for name, _, value in pairs if name not in _CONNECT_NAMES)
    return secrets - {""}


def without_secrets(error: BaseException) -> BaseException:
    """Return ``error``, with its causes and contexts, without secrets in any text, for others to show.

    An exception with a secret in its text is replaced by one of the same class name, with the same traceback.
    """
    return _shown_error(error, {})


def _shown_error(error: BaseException, seen: dict[int, BaseException]) -> BaseException:
    if id(error) in seen:
        return seen[id(error)]
    texts = [str(error), *getattr(error, "__notes__", ())]
    clean = [redacted(text) for text in texts]
    shown = error
    if clean != texts:
        kind = type(type(error).__name__, (Exception,), {"__module__": type(error).__module__})
        shown = kind("\n".join(clean)).with_traceback(error.__traceback__)
    seen[id(error)] = shown
    cause, context, suppressed = error.__cause__, error.__context__, error.__suppress_context__
    shown.__cause__ = None if cause is None else _shown_error(cause, seen)
    shown.__context__ = None if context is None else _shown_error(context, seen)
    shown.__suppress_context__ = suppressed  # setting the cause has changed it
    return shown


# The forms of secrets in text

_REFERENCE = r"\$\{\w+\}"
_SHOWN = rf"(?:{_REFERENCE}|\*{{3,}}(?:\(redacted\))?)"
_USER = re.compile(
    r"(?<=://)(?P<user>[^\s/:@\"'?#]*):(?!\d{1,5}(?:[/?#]|$))"
    r"(?P<secret>(?:[^\s\"'<>@]|@(?=[^\s\"'<>@/?#]{0,256}@)){1,512})@"
)
_CONNECT = re.compile(r"(?P<before>sc://[^\s/;\"']*)(?P<between>/?;)(?P<secret>[^\s\"']*)")
_CONNECT_NAMES = frozenset({"use_ssl", "user_id", "user_agent", "session_id"})
_ASSIGNED = re.compile(
    r"(?P<before>[?&;]?)(?<![\w.\-])(?P<name>[\w.\-]+)(?P<between>[\"']?\s*=\s*|[\"']\s*:\s*)"
    rf"(?P<secret>\"[^\"]*\"|'[^']*'|(?:{_SHOWN}|,(?=\S)|[^\s;&,\"')\]}}>])+)"
)
_BEARER = re.compile(r"\b(?P<before>Bearer\s+)(?P<secret>(?!token\b|auth)[\w.~+/=\-]{4,})", re.IGNORECASE)
_ALL_SHOWN = re.compile(rf"{_SHOWN}+\Z")


def _assigned(match: re.Match[str]) -> str:
    name = match["name"].removeprefix("-D")  # a property in the arguments of a JVM
    if not names_secret_parameter(name, match["before"]) or _ALL_SHOWN.match(match["secret"].strip("\"'")):
        return match[0]
    return f"{match['before']}{match['name']}{match['between']}{MASK}"


def _connected(match: re.Match[str]) -> str:
    """Redact the parameters of a Spark Connect URL: the client sends each as a header, whatever its name."""
    pairs = [pair.partition("=") for pair in match["secret"].split(";")]
    shown = ";".join(
        name + equals + (value if name in _CONNECT_NAMES or _ALL_SHOWN.match(value) else value and MASK)
        for name, equals, value in pairs
    )
    return f"{match['before']}{match['between']}{shown}"


_SHAPES = (
    (_USER, ""),
    (_CONNECT, _connected),
    (_ASSIGNED, _assigned),
    (_BEARER, rf"\g<before>{MASK}"),
)


# The forms in which a known value appears


def _is_secret(value: str) -> bool:
    return len(value) >= _SHORTEST and value.lower() not in _NO_SECRETS and not _ALL_SHOWN.match(value)


def _form(value: str) -> str:
    """Return a regular expression without groups that matches ``value`` as it is, percent-encoded or escaped."""
    form = "".join(map(_character, re.sub(r"\s+", " ", value)))
    if len(value) >= _ANYWHERE:
        return form
    before = r"(?:(?<!\w)|(?<=%[0-9A-Fa-f]{2}))" if value[0].isalnum() else ""
    return f"{before}{form}" + (r"(?!\w)" if value[-1].isalnum() else "")


def _character(character: str) -> str:
    if character.isascii() and (character.isalnum() or character == "_"):
        return character
    if character == " ":
        return r"(?:\s+|\\[nrt]|\+|%20|(?:%0[9aAdD])+)"
    encoded = "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
    any_case = re.sub("[a-f]", lambda match: f"[{match[0]}{match[0].upper()}]", encoded)
    escaped = r"\\*" if character in "\"'\\" else ""
    in_json = "" if character.isascii() else "|" + re.escape(json.dumps(character)[1:-1])
    return f"(?:{escaped}{re.escape(character)}|{any_case}{in_json})"
