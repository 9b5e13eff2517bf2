"""The options of the engine ``databricks``, and how a cluster and a SQL warehouse are addressed by them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from rivet_dagster.engines.option_values import wrong_values
from rivet_dagster.engines.pyspark.config import wrong_session_settings
from rivet_dagster.model import convert
from rivet_dagster.model.profile import EngineSpec

OPTIONS = frozenset({"host", "token", "cluster_id", "http_path", "catalog", "config", "max_fusion_depth"})

_HOST = re.compile(r"(?:https://)?(?P<host>[A-Za-z0-9.-]+)(?::(?P<port>[0-9]+))?/?\Z")
_CLUSTER = re.compile(r"[A-Za-z0-9-]+\Z")
_OF_MEANING = frozenset({"ansi_mode", "legacy_time_parser_policy"})
"""Parameters of a warehouse with which the same SQL has other rows."""


def _host(value: Any) -> str:
    text = convert.text(value)
    if not _HOST.match(text):
        raise ValueError("must be the host of a workspace, like adb-1.azuredatabricks.net")
    return text


def _cluster(value: Any) -> str:
    text = convert.text(value)
    if not _CLUSTER.match(text):
        raise ValueError(f"must be the id of a cluster, like 0923-164208-abcd1234, not {convert.show(value)}")
    return text


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "host": _host,
    "token": convert.text,
    "cluster_id": _cluster,
    "http_path": convert.text,
    "catalog": convert.text,
    "max_fusion_depth": convert.whole(1),
}


def wrong_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the values of ``options``: a sentence by key.

    >>> wrong_options({"host": "adb-1.azuredatabricks.net", "token": "${TOKEN}"})
    {'http_path': 'must name a SQL warehouse, or `cluster_id` a cluster'}
    """
    wrong = wrong_values(options, _CONVERTERS, {"max_fusion_depth"})
    for key in ("host", "token"):
        if key not in options:
            wrong[key] = "is missing"
    if "http_path" in options and "cluster_id" in options:
        wrong["cluster_id"] = "cannot stand beside `http_path`: the one is a cluster, the other a SQL warehouse"
    elif "http_path" not in options and "cluster_id" not in options:
        wrong["http_path"] = "must name a SQL warehouse, or `cluster_id` a cluster"
    config = options.get("config", {})
    if not isinstance(config, Mapping):
        return wrong | {"config": f"must be a mapping, not {convert.show(config)}"}
    of_application = wrong_session_settings(config) if "cluster_id" in options else {}
    for key, value in config.items():
        if "http_path" in options and str(key).lower() in _OF_MEANING:
            wrong["config"] = f"{key} would give the same SQL another meaning"
            continue
        try:
            convert.setting(value)
        except ValueError as error:
            wrong["config"] = f"{key} {error}"
        if key in of_application:
            wrong["config"] = f"{key} is a setting of the whole cluster"
    return wrong


def on_connect(spec: EngineSpec) -> EngineSpec:
    """Return the declaration of an engine ``pyspark`` on the cluster's server of Spark Connect.

    >>> options = {"host": "https://adb-1.net/", "token": "dapi;1", "cluster_id": "0923-1"}
    >>> on_connect(EngineSpec("dbx", "databricks", options=options)).options["remote"]
    'sc://adb-1.net:443/;token=dapi%3B1;x-databricks-cluster-id=0923-1'
    """
    host, port = _address(spec.options["host"])
    token, cluster = quote(spec.options["token"], safe=""), spec.options["cluster_id"]
    remote = f"sc://{host}:{port}/;token={token};x-databricks-cluster-id={cluster}"
    shared = {key: spec.options[key] for key in ("config", "max_fusion_depth") if key in spec.options}
    return replace(spec, type="pyspark", options={"remote": remote, **shared})


def connection_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with which the connector connects to the warehouse.

    >>> options = {"host": "adb-1.net", "token": "dapi1", "http_path": "/sql/1.0/warehouses/a", "catalog": "main"}
    >>> arguments = connection_arguments(options | {"config": {"TIMEZONE": "UTC"}})
    >>> arguments["server_hostname"], arguments["catalog"], arguments["session_configuration"]
    ('adb-1.net', 'main', {'TIMEZONE': 'UTC', 'ANSI_MODE': 'true'})
    """
    host, port = _address(options["host"])
    config = {key: convert.setting(value) for key, value in options.get("config", {}).items()}
    arguments = {
        "server_hostname": host,
        "http_path": options["http_path"],
        "access_token": options["token"],
        # Spark 4 computes in ANSI mode, and an administrator may have turned it off for the workspace.
        "session_configuration": {**config, "ANSI_MODE": "true"},
        "user_agent_entry": "rivet_dagster",
        "enable_telemetry": False,
    }
    if port != "443":
        arguments["_port"] = int(port)
    return arguments | ({"catalog": options["catalog"]} if "catalog" in options else {})


def _address(host: str) -> tuple[str, str]:
    found = _HOST.match(host)
    assert found is not None, "the options have been checked"
    return found["host"], found["port"] or "443"
