"""The command that starts a Spark Connect server, its environment and settings, and the order of a supervisor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rivet_dagster.engines.pyspark.config import without_catalog_secrets
from rivet_dagster.engines.pyspark.server.files import ServerFiles

CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
PORT = "spark.connect.grpc.binding.port"
TOKEN_KEY = "spark.connect.authenticate.token"
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
POOLS = Path(__file__).parents[1] / "fairscheduler.xml"

_NOT_INHERITED = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE")
"""Variables of a process that is a client, which would make the server one."""
_BEGINNINGS_NOT_INHERITED = ("PYSPARK_GATEWAY_", "PYSPARK_REMOTE_", "_PYSPARK_")

_DEFAULTS = {
    # Runs share the server: without both, a long query keeps all cores until it is done.
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": POOLS.as_uri(),
    # Its port is open to other machines, and shows queries to everybody.
    "spark.ui.enabled": "false",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    # The server notices a dead client when it next completes the stream of its results (by default after 2 minutes, so
    # that the client attaches again), and cancels the query some time later (after 5 minutes).
    "spark.connect.execute.reattachable.senderMaxStreamDuration": "15s",
    "spark.connect.execute.manager.detachedTimeout": "20s",
    "spark.connect.execute.manager.maintenanceInterval": "5s",
    # A Python joint may compute for hours before it uses its session again (the default is one hour).
    "spark.connect.session.manager.defaultSessionTimeout": "24h",
}


def server_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a server starts with, made of those of the engine, which come first.

    Secrets of Spark catalogs are left out: each session gets them later. So is the token, for the environment.

    >>> server_settings({"spark.master": "local[2]", "spark.remote": "local"})["spark.scheduler.mode"]
    'FAIR'
    """
    own = {
        key: value for key, value in without_catalog_secrets(config).items() if key not in ("spark.remote", TOKEN_KEY)
    }
    return {**_DEFAULTS, **own}


def server_command(home: Path, settings: Path) -> list[str]:
    """Return the command, which contains no setting: others of the machine can see it.

    >>> print(*server_command(Path("/opt/spark"), Path("/p/.rivet/spark/spark.conf")))
    /opt/spark/bin/spark-submit --properties-file /p/.rivet/spark/spark.conf --load-spark-defaults
    --class org.apache.spark.sql.connect.service.SparkConnectServer
    """
    submit = str(home / "bin" / "spark-submit")
    # Without the third argument a file of settings replaces the distribution's spark-defaults.conf.
    return [submit, "--properties-file", str(settings), "--load-spark-defaults", "--class", CLASS]


def server_environ(environ: Mapping[str, str], home: Path, token: str) -> dict[str, str]:
    """Return the environment of the server: only this user, and the administrator, can read it.

    >>> server_environ({"PATH": "/bin", "SPARK_REMOTE": "sc://x"}, Path("/opt/spark"), "t0ken")
    {'PATH': '/bin', 'SPARK_HOME': '/opt/spark', 'SPARK_CONNECT_AUTHENTICATE_TOKEN': 't0ken'}
    """
    inherited = {
        name: value
        for name, value in environ.items()
        if name not in _NOT_INHERITED and not name.startswith(_BEGINNINGS_NOT_INHERITED)
    }
    return {**inherited, "SPARK_HOME": str(home), TOKEN: token}


def properties(settings: Mapping[str, str]) -> str:
    r"""Return the text of a properties file, as Java reads it.

    >>> print(properties({"spark.app.name": " a:b\\c\nd"}), end="")
    spark.app.name=\ a:b\\c\nd
    """
    return "".join(f"{_escaped(key, ' =:#!')}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str, also: str = "") -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    for character in also:
        text = text.replace(character, f"\\{character}")
    return f"\\{text}" if text.startswith(" ") and " " not in also else text


@dataclass(frozen=True)
class Order:
    """A server to start: for which engine of which project, of which kind, and its settings.

    ``lock`` is the file descriptor of the lock of ``ServerFiles.starting``, which the supervisor inherits.
    ``idle_seconds`` is how long nobody has to use the server before it ends, ``home`` a distribution of Spark,
    ``archives`` the folder of archives of loaded classes.
    """

    root: str
    engine: str
    folder: str
    kind: str
    settings: Mapping[str, str]
    digests: Mapping[str, str]
    idle_seconds: float
    lock: int
    token: str = field(repr=False)
    home: str | None = None
    archives: str | None = None

    @property
    def files(self) -> ServerFiles:
        """The files of the server."""
        return ServerFiles(Path(self.root), self.engine, self.folder)

    def to_json(self) -> str:
        """Return the order as a text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Order:
        """Return the order of a text that ``to_json`` made."""
        return cls(**json.loads(text))
