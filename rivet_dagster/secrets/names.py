"""Recognition of names of secrets: of options in a profile, and of parameters in any text."""

from __future__ import annotations

import re

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
