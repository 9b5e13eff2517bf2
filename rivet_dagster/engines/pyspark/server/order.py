"""The order of a server, passed to its supervisor through a pipe: it stands on no command line and in no file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rivet_dagster.engines.pyspark.server.files import ServerFiles


@dataclass(frozen=True)
class Order:
    """A server to start: for which engine of which project, from which distribution, and its settings.

    ``lock`` is the file descriptor of the lock of ``ServerFiles.starting``, which the supervisor inherits.
    ``idle_seconds`` is how long nobody has to use the server before it ends, ``archives`` the folder of archives of
    loaded classes.
    """

    root: str
    engine: str
    home: str
    settings: Mapping[str, str]
    digests: Mapping[str, str]
    idle_seconds: float
    lock: int
    token: str = field(repr=False)
    archives: str | None = None

    @property
    def files(self) -> ServerFiles:
        """The files of the server."""
        return ServerFiles(Path(self.root), self.engine)

    def to_json(self) -> str:
        """Return the order as a text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Order:
        """Return the order of a text that ``to_json`` made."""
        return cls(**json.loads(text))
