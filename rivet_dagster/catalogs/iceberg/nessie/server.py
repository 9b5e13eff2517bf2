"""A client of Nessie's own REST interface, version 2: references, the contents of keys, and commits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    import requests

Key = tuple[str, ...]
Content = Mapping[str, Any]
NO_PROPERTIES: Mapping[str, str] = {}

TABLE, NAMESPACE, VIEW = "ICEBERG_TABLE", "NAMESPACE", "ICEBERG_VIEW"
"""Types of contents."""

ENVIRONMENT = "rivet_environment"
"""The namespace, on the branch of an environment, whose properties say what the environment is."""

RUN = "rivet_run"
"""The namespace, on the branch of a run, whose properties say what the run builds, and upon which branch."""


class NessieError(OSError):
    """An answer by which the server refuses a request."""


class NessieTooOldError(NessieError):
    """The server has no interface of the version that this client needs."""


class NessieConflictError(NessieError):
    """The refusal of a change, since others have changed the same keys or the same reference."""


class NessieNotFoundError(NessieError):
    """There is no reference of that name, or no such state of it."""


_API = 2
"""The version of the REST interface, and the first one of the specification, that is spoken here."""


@dataclass(frozen=True)
class Reference:
    """A branch or tag, and the hash of the commit that it is at."""

    name: str
    hash: str
    type: str = "BRANCH"

    @property
    def path(self) -> str:
        """The reference at that hash, as a part of a path."""
        return f"{quote(self.name, safe='')}@{self.hash}"


class NessieServer:
    """The server at ``uri``, which ends with ``/api/v2``; ``token`` is a bearer token."""

    def __init__(self, uri: str, token: str | None = None) -> None:
        self.uri = f"{uri.rpartition('/api/')[0]}/api/v2"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    @cached_property
    def _config(self) -> dict[str, Any]:
        return self._call("GET", "config")

    def require_version(self) -> None:
        """Raise NessieTooOldError for a server that speaks no version 2 of the interface, or an unfinished one."""
        try:
            known = self._config
        except NessieNotFoundError as error:
            message = f"there is no REST interface of Nessie of the version 2 at {self.uri}: {error}"
            raise NessieTooOldError(message) from error
        if int(known.get("maxSupportedApiVersion", 0)) < _API:
            message = f"the REST interface of Nessie at {self.uri} has no version {_API}"
            raise NessieTooOldError(message)
        spec = str(known.get("specVersion", "unknown"))
        numbers, _, beta = spec.partition("-")
        if beta or not all(part.isdigit() for part in numbers.split(".")) or int(numbers.split(".")[0]) < _API:
            message = f"Nessie at {self.uri} behaves by the specification {spec}, and 2.0.0 is needed"
            raise NessieTooOldError(message)

    @property
    def default_branch(self) -> str:
        """The branch that the server names where none is given."""
        return str(self._config["defaultBranch"])

    @property
    def no_commit(self) -> str:
        """The hash of a branch without commits."""
        return str(self._config["noAncestorHash"])

    def reference(self, name: str) -> Reference:
        """Return a reference as it is now. Raises NessieNotFoundError."""
        return _reference(self._call("GET", f"trees/{quote(name, safe='')}")["reference"])

    def contents(self, reference: str, keys: Sequence[Key]) -> tuple[str, dict[Key, Content]]:
        """Return the hash of a reference now, and the contents of those keys that it has."""
        asked = {"requestedKeys": [{"elements": list(key)} for key in keys]}
        answer = self._call("POST", f"trees/{quote(reference, safe='@')}/contents", asked)
        contents = {tuple(entry["key"]["elements"]): entry["content"] for entry in answer["contents"]}
        return str(answer["effectiveReference"]["hash"]), contents

    def entries(self, reference: str) -> Iterator[tuple[Key, str]]:
        """Yield the keys of a reference, and the types of their contents."""
        for page in self._pages(f"trees/{quote(reference, safe='@')}/entries"):
            for entry in page["entries"]:
                yield tuple(entry["name"]["elements"]), str(entry["type"])

    def commit(
        self,
        branch: Reference,
        message: str,
        operations: Sequence[Mapping[str, Any]],
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> Reference:
        """Commit to a branch; the keys must not have changed since its hash. Raises NessieConflictError."""
        meta = {"message": message, "properties": dict(properties)}
        body = {"commitMeta": meta, "operations": list(operations)}
        return _reference(self._call("POST", f"trees/{branch.path}/history/commit", body)["targetBranch"])

    def make(self, name: str, source: Reference, type_: str = "BRANCH") -> bool:
        """Make a branch or a tag at the hash of ``source``; return whether there was none of that name."""
        body = {"type": source.type, "name": source.name, "hash": source.hash}
        try:
            self._call("POST", "trees", body, name=name, type=type_)
        except NessieConflictError:
            return False
        return True

    def remove(self, name: str) -> bool:
        """Remove a branch or tag with whatever it has by now; return whether there was one."""
        while True:
            try:
                reference = self.reference(name)
                self._call("DELETE", f"trees/{reference.path}", type=reference.type)
            except NessieNotFoundError:
                return False
            except NessieConflictError:  # somebody has just committed to it
                continue
            return True

    def references(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the names of the references that begin with ``prefix``, and the times of their last commits."""
        for page in self._pages("trees", fetch="ALL"):
            for reference in page["references"]:
                if reference["name"].startswith(prefix):
                    head = (reference.get("metadata") or {}).get("commitMetaOfHEAD") or {}
                    yield reference["name"], str(head.get("commitTime", ""))

    def branches(self, prefix: str) -> Iterator[str]:
        """Yield the names of the branches and tags that begin with ``prefix``."""
        for page in self._pages("trees", filter=f"ref.name.startsWith('{prefix}')"):
            yield from (reference["name"] for reference in page["references"])

    def merge(
        self,
        into: Reference,
        source: Reference,
        message: str,
        keys: Sequence[Key],
    ) -> bool:
        """Merge these keys in one commit, whatever ``into`` has; return False if nothing is new."""
        modes = [{"key": {"elements": list(key)}, "mergeBehavior": "FORCE"} for key in keys]
        body: dict[str, Any] = {
            "fromRefName": source.name,
            "fromHash": source.hash,
            "commitMeta": {"message": message},
            "defaultKeyMergeMode": "DROP",
            "keyMergeModes": modes,
        }
        return bool(self._call("POST", f"trees/{into.path}/history/merge", body)["wasApplied"])

    def has_commit(self, reference: str, key: str, value: str, after: str) -> bool:
        """Return whether one of the commits since the hash ``after`` has a property of that value."""
        for page in self._pages(f"trees/{quote(reference, safe='')}/history", **{"limit-hash": after}):
            for entry in page["logEntries"]:
                if value in (entry["commitMeta"].get("allProperties") or {}).get(key, []):
                    return True
        return False

    def _pages(self, path: str, **parameters: str) -> Iterator[dict[str, Any]]:
        page = self._call("GET", path, **parameters)
        yield page
        while page.get("hasMore"):
            page = self._call("GET", path, **{**parameters, "page-token": page["token"]})
            yield page

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, /, **parameters: str
    ) -> dict[str, Any]:
        from rivet_dagster.catalogs.iceberg.rest_catalog import patience

        answer = _connections(os.getpid()).request(
            method,
            f"{self.uri}/{path}",
            params=parameters,
            json=body,
            headers=self._headers,
            timeout=patience(method, {}),
        )
        if not answer.ok:
            raise _error(answer)
        try:
            return dict(answer.json()) if answer.content else {}
        except ValueError as error:
            raise NessieError(f"what answers at {self.uri} is not Nessie") from error


@cache
def _connections(process: int) -> requests.Session:
    """Return what keeps the connections of a process open, which a process that is forked must not share."""
    import requests

    return requests.Session()


def put(key: Key, content: Content) -> dict[str, Any]:
    """Return the operation of a commit that sets the content of a key."""
    return {"type": "PUT", "key": {"elements": list(key)}, "content": dict(content)}


def delete(key: Key) -> dict[str, Any]:
    """Return the operation of a commit that removes a key."""
    return {"type": "DELETE", "key": {"elements": list(key)}}


class ContentsAtCommit:
    """The contents of the keys of a reference at one commit, which never change: no key is asked for twice."""

    def __init__(self, server: NessieServer, reference: Reference) -> None:
        self.reference = reference
        self._server = server
        self._known: dict[Key, Content | None] = {}

    def look_up(self, keys: Iterable[Key]) -> None:
        """Ask for the contents of keys, of all in one request."""
        asked = [key for key in dict.fromkeys(keys) if key not in self._known]
        if asked:
            contents = self._server.contents(f"{self.reference.name}@{self.reference.hash}", asked)[1]
            self._known |= {key: contents.get(key) for key in asked}

    def of(self, keys: Sequence[Key]) -> dict[Key, Content]:
        """Return the contents of those keys that the commit has."""
        self.look_up(keys)
        return {key: content for key in keys if (content := self._known[key]) is not None}


def _reference(answer: Mapping[str, Any]) -> Reference:
    return Reference(answer["name"], answer["hash"], answer["type"])


def _error(answer: requests.Response) -> NessieError | PermissionError:
    try:
        text = str(answer.json().get("message") or answer.reason)
    except ValueError:
        text = answer.reason
    text = f"Nessie answers {answer.status_code}: {text}"
    if answer.status_code in (401, 403):
        return PermissionError(text)
    kinds = {404: NessieNotFoundError, 409: NessieConflictError}
    return kinds.get(answer.status_code, NessieError)(text)
