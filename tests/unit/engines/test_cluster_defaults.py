"""Settings that a cluster gets by default, and a laptop does not."""

import pytest

from rivet_dagster.engines.pyspark.config import session_config
from rivet_dagster.model.profile import EngineSpec

SHUFFLE = "spark.sql.shuffle.partitions"


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        ({}, None),
        ({"master": "local[8]"}, None),
        ({"remote": "local"}, None),
        ({"remote": "sc://spark:15002"}, None),
        ({"master": "yarn"}, "1000"),
        ({"config": {"spark.master": "spark://host:7077"}}, "1000"),
        ({"remote": "local", "master": "spark://host:7077"}, "1000"),
        ({"master": "yarn", "config": {SHUFFLE: 64}}, "64"),
    ],
)
def test_only_clusters_have_more_shuffle_partitions(options, partitions):
    assert session_config(EngineSpec("spark", "pyspark", options=options)).get(SHUFFLE) == partitions
