"""The conformance suite on a cluster of Databricks, which is a server of Spark Connect behind a proxy.

It runs in a process of its own, as that of ``connect.py``.
"""

from __future__ import annotations

import os

import pytest

from rivet_dagster.engines.databricks.engine import DatabricksCluster
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import CatalogTable
from support import connect

HOST = "RIVET_TEST_DATABRICKS"
"""The environment variable with the host and port of the proxy."""
TOKEN, CLUSTER = "dapi;of=tests", "0923-164208-abcd1234"


def engine(check_interrupt=None, **options):
    declared = {"host": os.environ[HOST], "token": TOKEN, "cluster_id": CLUSTER, **options}
    return DatabricksCluster(EngineSpec("dbx", "databricks", options=declared), None, check_interrupt)


class TestCluster(connect.TestConnect):
    def new_engine(self, check_interrupt=None):
        return engine(check_interrupt)


def test_a_table_is_looked_for_in_the_catalog_of_the_engine():
    with engine(catalog="main").session() as session:
        assert session.own_catalog == "main"
        with pytest.raises(RivetError, match="main") as caught:
            session.load(CatalogTable(("spark_catalog", "sales", "orders")))
    assert caught.value.code == "RVT-503"


@pytest.mark.parametrize("wrong", [{"token": "dapi-of-nobody"}, {"cluster_id": "0000"}])
def test_a_wrong_token_or_cluster_is_rvt_502(wrong):
    with pytest.raises(RivetError) as caught:
        engine(**wrong).session()
    assert caught.value.code == "RVT-502"
    assert "dapi" not in str(caught.value)
