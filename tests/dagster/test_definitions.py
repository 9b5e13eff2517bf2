"""A project as Dagster definitions: joints, checks, engines and jobs before anything runs."""

import dagster as dg
import pytest
from support.folders import MANIFEST, PROFILES, sink, source

from rivet_dagster import DagsterRivetTranslator, Joint, RivetError, load_definitions

SALES = {
    "sources/shop/orders.yaml": source("orders.csv", "id INT, amount DOUBLE", description="As they come in."),
    "joints/marts/paid.sql": (
        "-- rivet:tags: {fresh: , team: sales}\n"
        "-- rivet:owners: [team:sales, ada@example.org]\n"
        "-- rivet:description: Only what was paid.\n"
        "SELECT id, amount FROM orders WHERE amount > 0 -- `ok`\n"
    ),
    "joints/scores.py": "import no_such_module\n\ndef transform(paid):\n    return paid\n",
    "sinks/report.yaml": sink(
        "reports.v1",
        "scores",
        name="report",
        group="published",
        tags=["nightly"],
        assertions=[
            {"type": "not_null", "columns": ["id"], "description": "A key.", "remediation": "Ask the shop."},
            {"type": "row_count", "min": 1, "severity": "warn", "tags": {"area": "volume"}},
            {"type": "expression", "sql": "id > 0", "name": "id is positive!"},
        ],
    ),
}
FUSED = {
    "sources/orders.yaml": source("orders.csv", "id INT"),
    "joints/a.sql": "SELECT id FROM orders",
    "joints/b.sql": "SELECT id + 1 AS id FROM a",
    "sinks/out.yaml": sink("out", "b"),
}


def specs(definitions: dg.Definitions) -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in definitions.resolve_all_asset_specs()}


def checks(definitions: dg.Definitions) -> dict[str, dg.AssetCheckSpec]:
    graph = definitions.resolve_asset_graph()
    found = [graph.get_check_spec(key) for key in graph.asset_check_keys]
    return {f"{spec.asset_key.to_user_string()}:{spec.name}": spec for spec in found}


def test_every_joint_is_an_asset_with_everything_declared_in_its_file(folder):
    sales = folder(SALES)
    found = specs(load_definitions(sales.root))
    assert set(found) == {"orders", "paid", "scores", "report"}
    assert {name: {dep.asset_key.to_user_string() for dep in spec.deps} for name, spec in found.items()} == {
        "orders": set(), "paid": {"orders"}, "scores": {"paid"}, "report": {"scores"},
    }  # fmt: skip
    assert {name: spec.group_name for name, spec in found.items()} == {
        "orders": "shop", "paid": "marts", "scores": "default", "report": "published",
    }  # fmt: skip
    assert {name: set(spec.kinds) for name, spec in found.items()} == {
        "orders": {"source", "pyspark", "filesystem"},
        "paid": {"sql", "pyspark", "filesystem"},
        "scores": {"python", "pyspark", "filesystem"},
        "report": {"sink", "pyspark", "filesystem"},
    }
    paid = found["paid"]
    assert paid.description == "Only what was paid."
    assert list(paid.owners) == ["team:sales", "ada@example.org"]
    tags = {key: value for key, value in paid.tags.items() if not key.startswith("dagster/")}
    assert tags == {"fresh": "", "team": "sales"}
    assert found["report"].tags["nightly"] == ""
    assert found["orders"].description == "As they come in."
    assert {spec.metadata["dagster/io_manager_key"] for spec in found.values()} == {"rivet_io_manager"}
    tables = {name: spec.metadata["dagster/table_name"] for name, spec in found.items()}
    assert tables == {
        "orders": "raw.orders.csv", "paid": "workspace.paid", "scores": "workspace.scores", "report": "lake.reports.v1",
    }  # fmt: skip
    assert {spec.metadata["dagster/storage_kind"] for spec in found.values()} == {"filesystem"}


def test_an_asset_has_code_version_sql_columns_and_code_reference(folder):
    sales = folder(SALES)
    found = specs(load_definitions(sales.root))
    for joint in sales.assembly.joints:
        assert found[joint.name].code_version == joint.code_version
        reference = found[joint.name].metadata["dagster/code_references"].code_references[0]
        assert reference.file_path == str(sales.root / joint.file)
        assert reference.line_number == 1
    sql = found["paid"].metadata["rivet/sql"]
    assert sql == dg.MetadataValue.md("```sql\nSELECT id, amount FROM orders WHERE amount > 0 -- `ok`\n```")
    columns = found["orders"].metadata["dagster/column_schema"]
    assert [(column.name, column.type) for column in columns.columns] == [("id", "int"), ("amount", "double")]
    passed_on = found["paid"].metadata["dagster/column_schema"]
    assert [(column.name, column.type) for column in passed_on.columns] == [("id", "int"), ("amount", "double")]
    assert "rivet/sql" not in found["scores"].metadata


def test_a_joint_that_is_not_stored_names_no_table(folder):
    found = specs(load_definitions(folder(FUSED).root))
    named = {name for name, spec in found.items() if "dagster/table_name" in spec.metadata}
    assert named == {name for name, spec in found.items() if "dagster/storage_kind" in spec.metadata}
    assert named == {"orders", "out"}
    assert set(found["a"].kinds) == {"sql", "pyspark"}


def constraints(spec: dg.AssetSpec) -> dict[str, tuple[bool, bool]]:
    """Return for each column whether it may be NULL and whether its values are unique."""
    columns = spec.metadata["dagster/column_schema"].columns
    return {column.name: (column.constraints.nullable, column.constraints.unique) for column in columns}


CHECKS = [
    {"type": "not_null", "columns": ["ID", "b"]},
    {"type": "unique", "columns": ["id"]},
    {"type": "unique", "columns": ["b", "c"]},
    {"type": "not_null", "columns": ["c"], "severity": "warn"},
]


@pytest.mark.parametrize("phase", ["assertions", "audits"])
@pytest.mark.parametrize("mode", ["replace", "append"])
def test_column_constraints_follow_from_gates_on_the_whole_table(folder, phase, mode):
    kept = sink("kept", "a", write_strategy=mode, quality={phase: CHECKS})
    names = "id, id AS b, id AS c"
    shop = folder({"joints/a.sql": f"SELECT {names} FROM range(3)", "sinks/kept.yaml": kept})
    found = constraints(specs(load_definitions(shop.root))["kept"])
    judged = phase == "audits" or mode == "replace"  # an assertion sees only the appended rows
    assert found == {"id": (not judged, judged), "b": (not judged, False), "c": (True, False)}


def test_column_constraints_also_follow_from_gates_of_sources(folder):
    gated = source("orders", "id INT, b INT", quality={"assertions": [{"type": "not_null", "columns": ["id"]}]})
    found = specs(load_definitions(folder({"sources/orders.yaml": gated, "joints/a.sql": "SELECT * FROM orders"}).root))
    assert constraints(found["orders"]) == {"id": (False, False), "b": (True, False)}
    assert constraints(found["a"]) == {"id": (True, False), "b": (True, False)}


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_code_references_can_be_linked_to_a_repository(folder):
    scores = {"type": "python", "function": "lib.scoring:transform"}
    sales = folder({
        **{name: text for name, text in SALES.items() if name != "joints/scores.py"},
        "joints/scores.yaml": "\n# why\nname: scores\n" + "".join(f"{k}: {v}\n" for k, v in scores.items()),
        "lib/scoring.py": "def transform(paid):\n    return paid\n",
    })  # fmt: skip
    definitions = load_definitions(sales.root)
    places = {
        name: [
            (one.file_path, one.line_number, one.label)
            for one in spec.metadata["dagster/code_references"].code_references
        ]
        for name, spec in specs(definitions).items()
    }
    assert places["scores"] == [
        (str(sales.root / "joints/scores.yaml"), 3, "joints/scores.yaml"),
        (str(sales.root / "lib/scoring.py"), 1, "lib/scoring.py"),
    ]
    assert places["paid"] == [(str(sales.root / "joints/marts/paid.sql"), 1, "joints/marts/paid.sql")]
    mapping = dg.AnchorBasedFilePathMapping(sales.root / "rivet.yaml", "etl/rivet.yaml")
    assets = list(definitions.assets)
    linked = dg.link_code_references_to_git(assets, "https://github.com/shop/sales", "main", mapping)
    urls = {
        spec.key.to_user_string(): [one.url for one in spec.metadata["dagster/code_references"].code_references]
        for asset in linked
        for spec in asset.specs
    }
    assert urls["paid"] == ["https://github.com/shop/sales/tree/main/etl/joints/marts/paid.sql#L1"]
    assert urls["scores"][1] == "https://github.com/shop/sales/tree/main/etl/lib/scoring.py#L1"
    assert urls["orders"] == ["https://github.com/shop/sales/tree/main/etl/sources/shop/orders.yaml#L1"]


def test_an_asset_has_column_lineage_to_its_upstream_columns(folder):
    sales = folder({
        **FUSED,
        "rivet.yaml": MANIFEST | {"dagster": {"key_prefix": ["shop"]}},
        "joints/b.sql": "SELECT a.id + o.id AS total, 1 AS one FROM a, orders AS o",
    })  # fmt: skip
    metadata = specs(load_definitions(sales.root))["shop/b"].metadata
    deps = metadata["dagster/column_lineage"].deps_by_column
    origins = {column: {(d.asset_key.to_user_string(), d.column_name) for d in found} for column, found in deps.items()}
    assert origins == {"total": {("shop/a", "id"), ("shop/orders", "id")}, "one": set()}
    assert "| `total` | `a.id`, `orders.id` | `orders.id` |" in metadata["rivet/column_lineage"].md_str


def test_the_code_version_changes_only_with_what_determines_the_rows(folder):
    sales = folder(SALES)
    before = {name: spec.code_version for name, spec in specs(load_definitions(sales.root)).items()}
    text = SALES["joints/marts/paid.sql"]
    sales.write({"joints/marts/paid.sql": text.replace("Only", "Just").replace("-- `ok`", "/* fine */")})
    sales.write({"joints/scores.py": SALES["joints/scores.py"].replace("\n\n", "\n# a comment\n\n")})
    sales.write({"sources/shop/orders.yaml": source("orders.csv", "id INT, amount DOUBLE, new INT", filter="id > 0")})
    (sales.root / "joints/other").mkdir()
    (sales.root / "joints/marts/paid.sql").rename(sales.root / "joints/other/paid.sql")
    (sales.root / "joints/scores.py").rename(sales.root / "joints/other/scores.py")
    moved = {name: spec.code_version for name, spec in specs(load_definitions(sales.root)).items()}
    assert {name for name in before if before[name] != moved[name]} == {"orders"}
    for name in ("paid.sql", "scores.py"):
        (sales.root / "joints/other" / name).unlink()
    sales.write({name: text for name, text in SALES.items() if name != "sinks/report.yaml"})
    assert {name: spec.code_version for name, spec in specs(load_definitions(sales.root)).items()} == before
    sales.write({"joints/marts/paid.sql": text.replace("> 0", "> 1")})
    after = {name: spec.code_version for name, spec in specs(load_definitions(sales.root)).items()}
    assert {name for name in before if before[name] != after[name]} == {"paid"}


def test_the_fused_query_is_on_every_joint_of_a_group_or_on_the_exit_alone_if_it_is_long(folder):
    short = folder(FUSED)
    found = specs(load_definitions(short.root))
    fused = found["out"].metadata["rivet/fused_sql"].md_str
    assert "WITH a AS" in fused
    assert {name for name, spec in found.items() if "rivet/fused_sql" in spec.metadata} == {"orders", "a", "b", "out"}
    assert found["a"].metadata["rivet/fused_sql"].md_str == fused
    short.write({"joints/b.sql": f"SELECT id + 1 AS id FROM a WHERE id NOT IN ({', '.join(map(str, range(6000)))})"})
    found = specs(load_definitions(short.root))
    assert {name for name, spec in found.items() if "rivet/fused_sql" in spec.metadata} == {"out"}


def test_a_template_shows_both_of_its_texts(folder):
    later = "SELECT id FROM orders{% if is_incremental() %} WHERE id > {{ watermark_value }}{% endif %}"
    strategy = {"mode": "merge", "key_columns": ["id"], "watermark_column": "id"}
    shop = folder(FUSED | {"joints/a.sql": later, "sinks/out.yaml": sink("out", "b", write_strategy=strategy)})
    found = specs(load_definitions(shop.root))
    shown = {key: text.md_str for key, text in found["a"].metadata.items() if "sql" in key}
    assert shown["rivet/sql"] == "```sql\nSELECT id FROM orders\n```"
    assert shown["rivet/sql_incremental"] == "```sql\nSELECT id FROM orders WHERE id > :watermark_of_out\n```"
    assert "WHERE" not in shown["rivet/fused_sql"]
    assert ":watermark_of_out" in shown["rivet/fused_sql_incremental"]
    assert "rivet/sql_incremental" not in found["b"].metadata


def test_sql_with_fences_in_it_is_still_one_block_of_code(folder):
    sales = folder({**FUSED, "joints/a.sql": "SELECT id, '```' AS fence FROM orders"})
    shown = specs(load_definitions(sales.root))["a"].metadata["rivet/sql"].md_str
    assert shown == "````sql\nSELECT id, '```' AS fence FROM orders\n````"


def test_a_fused_group_is_one_step_and_a_source_has_no_step(folder):
    sales = folder({**FUSED, "joints/other.sql": "-- rivet:eager: true\nSELECT id FROM orders"})
    definitions = load_definitions(sales.root)
    nodes = {node.name for node in definitions.resolve_job_def("all").nodes}
    assert nodes == {"out", "other"}
    graph = definitions.resolve_asset_graph()
    assert {key.to_user_string() for key in graph.external_asset_keys} == {"orders"}
    assert {key.to_user_string() for key in graph.observable_asset_keys} == {"orders"}
    steps = {graph.get(dg.AssetKey(name)).assets_def.op.name for name in ("a", "b", "out")}
    assert steps == {"out"}
    assert graph.get(dg.AssetKey("a")).assets_def.can_subset


def test_every_check_is_an_asset_check_and_blocks_if_its_severity_is_error(folder):
    found = checks(load_definitions(folder(SALES).root))
    assert {name: spec.blocking for name, spec in found.items()} == {
        "report:not_null_id": True, "report:row_count": False, "report:id_is_positive_": True,
    }  # fmt: skip
    assert found["report:not_null_id"].description == "A key.\n\nAsk the shop."
    metadata = dict(found["report:row_count"].metadata)
    assert metadata == {
        "rivet/kind": "row_count", "rivet/phase": "assertion", "rivet/severity": "warn", "rivet/tag/area": "volume",
    }  # fmt: skip


def test_an_engine_is_a_resource_a_pool_and_a_tag(folder):
    definitions = load_definitions(folder(FUSED).root)
    assert set(definitions.resources) == {"rivet_engine_spark", "rivet_io_manager"}
    (step,) = definitions.resolve_job_def("all").nodes
    assert step.definition.pool == "rivet_spark"
    assert step.definition.tags["rivet/engine"] == "spark"


def engines(*names: str, **options) -> dict:
    engine = PROFILES["default"]["engines"][0]
    profile = PROFILES["default"] | {"engines": [engine | {"name": name} | options for name in names]}
    return {"profiles.yaml": {"default": profile | {"default_engine": names[0]}}}


def test_one_embedded_engine_runs_in_one_process_and_other_engines_in_limited_processes(folder):
    sales = folder(FUSED)
    assert load_definitions(sales.root).executor.name == "threads"
    assert load_definitions(sales.root).executor is load_definitions(sales.root).executor  # as merging requires
    for files in (engines("spark", "slow"), engines("spark", master="spark://far:7077")):
        executor = load_definitions(sales.write(files).root).executor
        assert executor.name == "multiprocess"
    sales.write(engines("spark", "slow", concurrency_limit=3))
    definitions = load_definitions(sales.root)
    assert set(definitions.resources) == {"rivet_engine_spark", "rivet_engine_slow", "rivet_io_manager"}
    config = definitions.executor.apply_config_mapping({"config": {}}).value["config"]
    limits = config["tag_concurrency_limits"]
    assert [(limit["key"], limit["value"], limit["limit"]) for limit in limits] == [
        ("rivet/engine", "spark", 3), ("rivet/engine", "slow", 3),
    ]  # fmt: skip
    assert config["max_concurrent"] >= 6  # whatever the number of processors


def test_the_job_all_contains_every_joint_and_the_checks_of_gated_sources(folder):
    gate = {"quality": {"assertions": [{"type": "row_count", "min": 1, "name": "some"}]}}
    sales = folder({**SALES, "sources/shop/orders.yaml": source("orders.csv", "id INT, amount DOUBLE", **gate)})
    definitions = load_definitions(sales.root)
    layer = definitions.resolve_job_def("all").asset_layer
    assert {key.to_user_string() for key in layer.selected_asset_keys} == {"paid", "scores", "report"}
    names = {f"{key.asset_key.to_user_string()}:{key.name}" for key in layer.asset_graph.asset_check_keys}
    assert "orders:some" in names
    assert len(names) == 4


@pytest.mark.parametrize("prefix", [["shop", "eu"], ["shop-2", "v1.0"]])
def test_a_key_prefix_is_prepended_to_every_key(folder, prefix):
    sales = folder({**SALES, "rivet.yaml": MANIFEST | {"dagster": {"key_prefix": prefix}}})
    definitions = load_definitions(sales.root)
    assert {spec.key for spec in definitions.resolve_all_asset_specs()} == {
        dg.AssetKey([*prefix, name]) for name in ("orders", "paid", "scores", "report")
    }
    report = specs(definitions)["/".join([*prefix, "report"])]
    assert {dep.asset_key for dep in report.deps} == {dg.AssetKey([*prefix, "scores"])}
    assert {spec.asset_key for spec in checks(definitions).values()} == {dg.AssetKey([*prefix, "report"])}
    assert definitions.resolve_job_def("all")


def test_two_projects_can_share_one_code_location(folder):
    one = folder({**SALES, "rivet.yaml": MANIFEST | {"dagster": {"key_prefix": ["one"], "io_manager_key": "one_io"}}})
    keys = {"paid", "scores", "report", "orders"}
    first = load_definitions(one.root)
    assert {spec.metadata["dagster/io_manager_key"] for spec in first.resolve_all_asset_specs()} == {"one_io"}
    other = load_definitions(one.write({"rivet.yaml": MANIFEST | {"dagster": {"key_prefix": ["two"]}}}).root)
    both = dg.Definitions(
        assets=[*first.assets, *other.assets],
        asset_checks=[*first.asset_checks, *other.asset_checks],
        resources={**first.resources, **other.resources},
    )
    assert set(specs(both)) == {f"{prefix}/{name}" for prefix in ("one", "two") for name in keys}


def test_joints_declared_in_python_are_added_to_those_in_files(folder):
    sales = folder(FUSED)
    joints = [
        Joint(name="c", type="sql", sql="SELECT id FROM b", owners=["team:x"]),
        Joint(name="extra", type="sink", upstream=["c"], catalog="lake", table="extra"),
    ]
    found = specs(load_definitions(sales.root, joints=joints))
    assert set(found) == {"orders", "a", "b", "c", "out", "extra"}
    assert list(found["c"].owners) == ["team:x"]
    assert "dagster/code_references" not in found["c"].metadata
    with pytest.raises(RivetError) as caught:
        load_definitions(sales.root, joints=[*joints, Joint(name="a", type="sql", sql="SELECT 1 AS x")])
    assert "RVT-301" in str(caught.value)


def test_a_translator_can_change_all_specs(folder):
    class Loud(DagsterRivetTranslator):
        def get_asset_spec(self, joint, project):
            spec = super().get_asset_spec(joint, project)
            renamed = spec.replace_attributes(key=["loud", joint.name.upper()])
            return renamed.merge_attributes(tags={"joint": joint.name})

    definitions = load_definitions(folder(SALES).root, translator=Loud())
    found = specs(definitions)
    assert set(found) == {"loud/ORDERS", "loud/PAID", "loud/SCORES", "loud/REPORT"}
    assert found["loud/PAID"].tags["joint"] == "paid"
    assert {dep.asset_key.to_user_string() for dep in found["loud/PAID"].deps} == {"loud/ORDERS"}
    lineage = found["loud/PAID"].metadata["dagster/column_lineage"].deps_by_column
    assert {dep.asset_key.to_user_string() for deps in lineage.values() for dep in deps} == {"loud/ORDERS"}
    assert {name.partition(":")[0] for name in checks(definitions)} == {"loud/REPORT"}


def test_a_project_with_errors_raises_one_error_with_all_of_them(folder):
    sales = folder({
        **SALES,
        "joints/marts/paid.sql": "SELECT id FROM ordres, orders WHERE",
        "joints/wrong.yaml": {"type": "sql", "sql": "SELECT 1 AS x", "tgas": ["x"]},
        "sinks/report.yaml": sink("report", "scors"),
    })  # fmt: skip
    with pytest.raises(RivetError) as caught:
        load_definitions(sales.root)
    error = caught.value
    assert {(d.code, d.file) for d in error.diagnostics} >= {
        ("RVT-203", "joints/wrong.yaml"), ("RVT-302", "sinks/report.yaml"),
    }  # fmt: skip
    assert len(error.diagnostics) == 3
    assert all(d.message in str(error) for d in error.diagnostics)


def test_a_project_of_sources_alone_loads(folder):
    definitions = load_definitions(folder({"sources/orders.yaml": source("orders.csv", "id INT")}).root)
    assert set(specs(definitions)) == {"orders"}
    dg.Definitions.validate_loadable(definitions)


def test_an_empty_project_loads(folder):
    dg.Definitions.validate_loadable(load_definitions(folder({}).root))


def test_columns_of_sources_are_those_returned_by_catalogs(folder):
    shop = folder({
        "data/orders.csv": "id,amount\n1,2\n",
        "sources/orders.yaml": {"type": "source", "catalog": "raw", "table": "orders.csv"},
        "joints/paid.sql": "SELECT id FROM orders",
    })  # fmt: skip

    def columns(**options):
        found = specs(load_definitions(shop.root, **options))
        shown = [found[name].metadata.get("dagster/column_schema") for name in ("orders", "paid")]
        return [one and [column.name for column in one.columns] for one in shown]

    assert columns() == [None, ["id"]]
    assert columns(introspect=True) == [["id", "amount"], ["id"]]
    (shop.root / "data/orders.csv").unlink()
    assert columns() == columns(introspect=True) == [["id", "amount"], ["id"]]
