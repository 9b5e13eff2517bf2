"""Findings about where Spark runs and writes: its master, and the folders of its local files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rivet_dagster.errors import RivetError
from rivet_dagster.machine.disk import amount, free_space, little_space, try_to_write
from rivet_dagster.machine.server import Server, servers_in, web_servers
from rivet_dagster.machine.server_findings import any_server
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order

_MASTER = "Start it, or correct the engine's `master`."
_YARN = "Set HADOOP_CONF_DIR to the folder of the cluster's configuration."
_FOLDER = "Name a folder that this user may write to: `spark.local.dir` in the engine's `config`, or SPARK_LOCAL_DIRS."


def examine_master(subject: str, master: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings about the master of a cluster; none where Spark runs on this machine."""
    if master == "yarn":
        if not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & environ.keys():
            message = "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set, by which Spark finds YARN"
            yield from broken(subject, RivetError("RVT-502", message, remediation=_YARN))
        return
    yield from any_server(subject, "master", _masters(master), "RVT-502", _MASTER)


def examine_local_folders(subject: str, config: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each folder in which Spark puts shuffled and spilled rows."""
    folders = _local_folders(config, environ)
    refused = {folder: why for folder in folders if (why := _refusal(folder)) is not None}
    for folder in folders:
        if folder not in refused:
            yield in_order(subject, f"Spark's local files in {folder}: {amount(free_space(folder))} free")
            yield from little_space(subject, folder, f"Spark's local files in {folder}")
            continue
        message = f"Spark cannot write its local files in {folder}: {refused[folder]}"
        if len(refused) == len(folders):
            yield from broken(subject, RivetError("RVT-502", message, remediation=_FOLDER))
        else:
            yield doubtful(subject, message, _FOLDER)


def _local_folders(config: Mapping[str, str], environ: Mapping[str, str]) -> list[Path]:
    """Return the folders, in Spark's order of precedence.

    >>> _local_folders({"spark.local.dir": "/a"}, {"SPARK_LOCAL_DIRS": "/b,/c"}), _local_folders({}, {})
    ([PosixPath('/b'), PosixPath('/c')], [PosixPath('/tmp')])
    """
    names = environ.get("SPARK_LOCAL_DIRS") or config.get("spark.local.dir") or "/tmp"
    return [Path(name) for part in names.split(",") if (name := part.strip())]


def _refusal(folder: Path) -> str | None:
    try:
        try_to_write(folder)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _masters(master: str) -> tuple[Server, ...]:
    """Return the servers of a master.

    >>> print(*_masters("spark://a:7077,b"), *_masters("k8s://https://api.invalid:6443"), *_masters("local[*]"))
    a:7077 b:7077 api.invalid:6443
    """
    if master.startswith("spark://"):
        return servers_in(master, 7077)
    address = master.removeprefix("k8s://")
    if address == master:
        return ()
    return web_servers(address if "://" in address else f"https://{address}")
