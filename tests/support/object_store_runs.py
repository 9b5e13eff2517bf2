"""Runs on Spark of projects whose sources are on S3.

They need a process of their own, since Spark takes the jars that it needs for S3 only when it starts.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rivet_dagster.execution.reading.inputs import reference
from rivet_dagster.execution.reading.sources import data_version
from support.folders import ProjectFolder, sink
from support.object_store import Bucket, new_bucket, rights_enforced, s3_url
from support.spark import MASTER, settings

__all__ = ["s3_url"]

READS = ("GetObject", "ListBucket")
ARCHIVES = (*READS, "PutObject", "DeleteObject")


@pytest.fixture(scope="module")
def buckets(s3_url: str) -> tuple[Bucket, Bucket]:
    """Return two buckets for all tests, since Spark keeps the settings of its first access to each."""
    return new_bucket(s3_url), new_bucket(s3_url)


@pytest.fixture(scope="module")
def project(buckets: tuple[Bucket, Bucket], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectFolder]:
    """Yield a project with a catalog in each bucket, for which each has other keys."""
    drop, store = buckets
    place = tmp_path_factory.mktemp("runs")
    keys = {"DROP": drop.keys_of_user(*ARCHIVES), "STORE": store.keys_of_user(*READS)}
    with pytest.MonkeyPatch.context() as environment, rights_enforced():
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name, pair in keys.items():
            environment.setenv(f"{name}_KEY", pair["access_key"])
            environment.setenv(f"{name}_SECRET", pair["secret_key"])
        catalogs = {
            "drop": declared(drop, "DROP", f"s3://{drop.name}", region=None),
            "store": declared(store, "STORE", f"s3a://{store.name}/raw"),
            "lake": {"type": "filesystem", "path": "lake"},
        }
        engine = {"name": "spark", "type": "pyspark", "catalogs": list(catalogs), "master": MASTER}
        profile = {"catalogs": catalogs, "engines": [{**engine, "config": settings(place)}]}
        yield ProjectFolder(place / "project", {"profiles.yaml": {"default": profile}})


def declared(bucket: Bucket, name: str, path: str, **other: str | None) -> dict[str, Any]:
    """Return the declaration of a catalog with keys from the environment; ``other`` options, None for a missing one."""
    keys = {"access_key": f"${{{name}_KEY}}", "secret_key": f"${{{name}_SECRET}}"}
    options = {key: value for key, value in {**bucket.options, **keys, **other}.items() if value is not None}
    return {"type": "filesystem", "path": path, "format": "csv", "options": options}


def source(table: str, catalog: str = "store", **options: Any) -> dict[str, Any]:
    """Return a source on S3."""
    return {"type": "source", "catalog": catalog, "table": table, "options": options}


def test_files_of_all_formats_are_read(project: ProjectFolder, buckets: tuple[Bucket, Bucket]) -> None:
    _, store = buckets
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["ä", None]})
    parquet = io.BytesIO()
    pq.write_table(rows, parquet)
    store.put("raw/a.csv", content="id,name\n1,ä\n2,\n")
    store.put("raw/b.parquet", "raw/folder/part-0.parquet", content=parquet.getvalue())
    store.put("raw/c.json", content="\n".join(json.dumps(row) for row in rows.to_pylist()))
    store.put("raw/odd/[x] {1}%20*.csv", "raw/odd/d e.csv", content="id,name\n1,ä\n")
    store.put("raw/days/day=1/_tmp.csv", "raw/days/.hidden.csv", content="nothing\n")
    for day in (1, 2):
        store.put(f"raw/days/day={day}/x.csv", content=f"id,name\n{day},x\n")
    typed = {"schema": "id BIGINT, name STRING"}
    tables = {
        "csv": source("a.csv", **typed),
        "parquet": source("b.parquet"),
        "folder": source("folder", format="parquet"),
        "json": source("c.json", **typed),
        "odd": source("odd/[[]*.csv", **typed),
        "spaces": source("odd/d*", **typed),
        "days": source("days", inferSchema=True),
    }
    project.write({f"sources/{name}_rows.yaml": declared for name, declared in tables.items()})
    found = {name: reference(project.runtime, f"{name}_rows").to_arrow().sort_by("id").to_pylist() for name in tables}
    for name in ("csv", "parquet", "folder", "json"):
        assert found[name] == rows.to_pylist(), name
    assert found["odd"] == found["spaces"] == rows.to_pylist()[:1]
    assert found["days"] == [{"id": day, "name": "x", "day": day} for day in (1, 2)]


def test_a_landing_zone_is_read_once_and_archived(project: ProjectFolder, buckets: tuple[Bucket, Bucket]) -> None:
    drop, store = buckets
    store.put("raw/names.json", content='{"id": 1, "name": "one"}\n{"id": 3, "name": "three"}\n')
    project.write({
        "sources/orders.yaml": source("orders", "drop", landing=True, archive=True, schema="id BIGINT, n INT"),
        "sources/names.yaml": source("names.json", schema="id BIGINT, name STRING"),
        "joints/named.sql": "SELECT id, n, name FROM orders LEFT JOIN names USING (id)",
        "sinks/out.yaml": sink("out", "named", write_strategy="append"),
    })  # fmt: skip
    joint = project.assembly.joint("orders")
    drop.put("orders/a.csv", content="id,n\n1,10\n")
    drop.put("orders/sub/b c.csv", content="id,n\n2,20\n")
    before = data_version(project.runtime, joint)
    first = project.run("out")
    assert project.rows("out") == [{"id": 1, "n": 10, "name": "one"}, {"id": 2, "n": 20, "name": None}]
    archive = f"_archive/{first.published.version}"
    assert drop.objects() == [f"orders/{archive}/a.csv", f"orders/sub/{archive}/b c.csv"]
    assert data_version(project.runtime, joint) != before
    drop.put("orders/a.csv", content="id,n\n3,30\n")
    second = project.run("out")
    assert [row["id"] for row in project.rows("out")] == [1, 2, 3]
    assert f"orders/_archive/{second.published.version}/a.csv" in drop.objects()
    project.run("out")
    assert len(project.rows("out")) == 3


def test_secrets_stand_in_no_file_of_the_project(project: ProjectFolder, buckets: tuple[Bucket, Bucket]) -> None:
    texts = [path.read_bytes() for path in Path(project.root).rglob("*") if path.is_file()]
    for engine in project.assembly.engines:
        config = project.runtime.engine(engine.name).session_config()
        secrets = [value for key, value in config.items() if key.endswith(("access.key", "secret.key"))]
        assert len(set(secrets)) == 4
        assert not [text for text in texts for secret in secrets if secret.encode() in text]
