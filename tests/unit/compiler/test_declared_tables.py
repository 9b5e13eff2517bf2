"""Tables and options of sinks and sources, checked by their catalog when compiling."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.projects import PLUGINS, codes, compile_joints, profile, sink, source
from support.tables import catalog

from rivet_dagster.catalogs.filesystem.sources.table_files import without_braces
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.project import Project


@pytest.mark.parametrize(
    "table",
    [
        "../../etc",
        "..",
        ".",
        ".rivet",
        ".x",
        "-x",
        "s3://bucket/x",
        "file:x",
        "/x",
        "x/",
        "a/b",
        "x\n",
        "a b",
        "a\0",
        "*",
    ],
)
def test_a_sinks_table_is_a_plain_name(table: str, tmp_path: Path) -> None:
    assert "RVT-204" in codes(compile_joints(source("raw"), sink("out", "raw", table=table)))
    with pytest.raises(RivetError):
        catalog(tmp_path).begin(table)


def test_a_name_that_is_impossible_for_a_file_is_no_table() -> None:
    for table, wrong in (("ä" * 128, ["RVT-204"]), ("ä" * 127, []), ("größe.v1-b", [])):
        assert codes(compile_joints(source("raw"), sink("out", "raw", table=table))) == wrong


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Compression": "ZSTD", "maxRecordsPerFile": 10, "retries": 3, "format": "parquet"}, None),
        ({"parquet.bloom.filter.enabled#id": True, "parquet.compression.codec.zstd.level": 3}, None),
        ({"compresion": "zstd"}, "unknown option 'compresion'; did you mean 'compression'"),
        ({"parquet.blok.size": 1}, "unknown option 'parquet.blok.size'; did you mean 'parquet.block.size'"),
        ({"retires": 3}, "did you mean 'retries'?"),
        ({"mergeSchema": True}, "known: compression, maxRecordsPerFile, parquet.*"),
        ({"parquet.summary.metadata.level": "ALL"}, "unknown option"),
        ({"compression": "zst"}, "`compression` must be one of none, "),
        ({"compression": ["zstd"]}, "must be a text, a number or a boolean"),
        ({"format": "csv"}, "always Parquet"),
    ],
)
def test_a_sinks_options_are_those_of_sparks_parquet_writer(options: dict[str, Any], message: str | None) -> None:
    errors = compile_joints(source("raw"), sink("out", "raw", options=options)).errors
    assert [message in error.message for error in errors if message] == [True] * (message is not None), errors


def test_a_store_without_an_atomic_switch_has_no_sink_and_no_workspace() -> None:
    for path, wrong in (("s3a://x/y", ["RVT-402"]), ("lake/.rivet/", ["RVT-204"]), ("${LAKE}", []), ("${S}://x", [])):
        catalogs = (CatalogSpec("lake", "filesystem", {"path": path}), profile().catalogs[1])
        for workspace, also in (("workspace", []), ("lake", wrong)):
            changed = replace(profile(), catalogs=catalogs, workspace=workspace)
            joints = (source("raw", table="/raw"), sink("out", "raw"))
            plan = compile_project(Project(changed, joints, {}), PLUGINS)
            assert codes(plan) == [*also, *wrong]


@pytest.mark.parametrize(
    "fields", [{"table": "{a,b}" * 30}, {"table": "a\0"}, {"options": {"format": "exe"}}, {"options": {"sep": ["a"]}}]
)
def test_wrong_tables_and_options_of_a_source_are_errors(fields: dict[str, Any]) -> None:
    plan = compile_joints(source("raw", **{"table": "x", **fields}), sink("out", "raw"))
    assert codes(plan) == ["RVT-204"]


def test_braces_expand_to_a_limited_number_of_patterns() -> None:
    assert len(without_braces("{a,b,c,d,e,f,g,h,i,j}" * 3)) == 1000
    assert without_braces("{a}" * 3000) == ["a" * 3000]
    assert set(without_braces("{a,{b,c}}-{d,")) == {"a-{d,", "b-{d,", "c-{d,"}
    for many in ("{a,b}" * 30, "{" + "," * 1000 + "}", "{a,a}" * 10):
        with pytest.raises(RivetError, match=r"RVT-204 .* more than 1000 patterns"):
            without_braces(many)
