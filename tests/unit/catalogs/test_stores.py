"""Sources and landing zones on S3, without an engine."""

import bz2
import gzip
import io
import re
import socket
from collections import Counter
from pathlib import Path
from threading import Barrier
from unittest.mock import patch

import pyarrow as pa
import pyarrow.fs
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import yaml
from support.object_store import Bucket, bucket, new_bucket, rights_enforced, s3_url
from support.tables import refused

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.filesystem.stores import store, store_tree
from rivet_dagster.catalogs.filesystem.stores.store import StoreUri
from rivet_dagster.catalogs.filesystem.stores.store_tree import explain_error
from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.model.finding import FAIL, OK
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.schema import Field
from rivet_dagster.secrets.redaction import redacted

pytestmark = pytest.mark.slow

__all__ = ["bucket", "s3_url"]

CSV = {"header": "true", "enforceSchema": "false"}
NAMES = ("orders.csv", "days/1.csv", "days/2.csv", "more/x.json", "odd/d e%20.csv", "odd/[x]*.csv", "odd/ü.csv")
IGNORED = ("days/_log.csv", "days/.hidden", "days/_archive/v1/1.csv", "_tmp/x.csv")


def catalog(bucket: Bucket, path: str = "raw", **options: object) -> FilesystemCatalog:
    declared = bucket.catalog(path, **options)
    return FilesystemCatalog(CatalogSpec("raw", declared.pop("type"), declared), Path("/nowhere"))


@pytest.mark.parametrize("code", ["PERMANENT_REDIRECT", "UNKNOWN (HTTP status 301)", "UNKNOWN (HTTP status 307)"])
def test_a_bucket_of_another_region_is_told(code: str) -> None:
    error = OSError(f"When listing objects: AWS Error {code} during ListObjectsV2 operation: try there")
    assert explain_error(error, StoreUri.of("s3a://lake/raw"), lambda: None) == (
        "the bucket is in another region",
        "Name the bucket's `region` in the catalog's `options`.",
    )


def with_files(bucket: Bucket) -> Bucket:
    bucket.put(*(f"raw/{name}" for name in (*NAMES, *IGNORED)))
    return bucket


@pytest.fixture
def raw(bucket: Bucket) -> Bucket:
    return with_files(bucket)


@pytest.fixture(scope="module")
def unchanged(s3_url: str) -> Bucket:
    """The same files as those of ``raw``, which no test changes."""
    return with_files(new_bucket(s3_url))


@pytest.mark.parametrize(
    ("table", "format", "paths"),
    [
        ("orders.csv", "csv", ["orders.csv"]),
        ("days", "csv", ["days"]),
        ("days/", "csv", ["days"]),
        ("days/*.csv", "csv", ["days/1.csv", "days/2.csv"]),
        ("days/[!2]*.csv", "csv", ["days/1.csv"]),
        ("{days,more}/*", "csv", ["days/1.csv", "days/2.csv", "more/x.json"]),
        ("*/1.csv", "csv", ["days/1.csv"]),
        ("odd/[x]*.csv", "csv", ["odd/[x]*.csv"]),
        ("odd", "csv", ["odd"]),
        ("../raw/days", "csv", ["days"]),
        ("/raw/days/2.csv", "csv", ["days/2.csv"]),
    ],
)
def test_a_table_is_a_file_a_folder_or_a_glob(unchanged, table, format, paths):
    found = catalog(unchanged).relation(table, {})
    assert found.format == format
    assert list(found.paths) == [f"s3a://{unchanged.name}/raw/{path}" for path in paths]
    assert found.options == CSV


def test_other_spellings_of_the_same_place(unchanged):
    uri = f"s3://{unchanged.name}/raw/days"
    for path, table in ((uri, "1.csv"), (f"s3a://{unchanged.name}", "raw/days/1.csv"), ("s3a://x", uri + "/1.csv")):
        options = {"path": path.replace("s3a://x", f"s3a://{unchanged.name}/elsewhere"), "options": unchanged.options}
        found = FilesystemCatalog(CatalogSpec("raw", "filesystem", options), Path("/"))
        assert found.relation(table, {}).paths == (f"s3a://{unchanged.name}/raw/days/1.csv",)
        assert found.uri(table) == f"s3a://{unchanged.name}/raw/days/1.csv"
    assert catalog(unchanged, format="csv").relation("orders", {}).paths[0].endswith("/raw/orders.csv")
    error = refused(catalog(unchanged).relation, "s3a://sea/x", {})
    assert (error.code, "is not in the catalog's store" in str(error)) == ("RVT-204", True)


def test_listed_files_are_those_that_are_read(unchanged):
    lake = catalog(unchanged)
    listed = lake.files("days", {})
    assert [(file.path, file.size) for file in listed] == [("days/1.csv", 5), ("days/2.csv", 5)]
    head = unchanged.client.head_object(Bucket=unchanged.name, Key="raw/days/1.csv")
    assert listed[0].mtime_ns == int(head["LastModified"].timestamp()) * 10**9
    assert [file.path for file in lake.files(".", {})] == sorted(NAMES)
    assert [file.path for file in lake.files("odd/*", {})] == sorted(name for name in NAMES if "odd" in name)
    for nothing_yet in ("days/3.csv", "days/*.json", "2027", "2027/*.csv"):
        assert lake.files(nothing_yet, {}) == ()
    assert lake.files("/raw/orders.csv", {}) == lake.files("orders.csv", {})
    assert catalog(unchanged, "raw/days").files("/raw/orders.csv", {})[0].path == "/raw/orders.csv"


def test_the_data_version_follows_the_files(raw):
    lake = catalog(raw)
    versions = [lake.data_version("days", {})]

    def changed() -> bool:
        versions.append(lake.data_version("days", {}))
        return versions[-1] != versions[-2]

    assert not changed()
    raw.put("raw/days/3.csv")
    assert changed()
    raw.put("raw/days/3.csv", content="id\n33\n")
    assert changed()
    raw.make_older("raw/days/3.csv")
    assert changed()
    raw.put("raw/days/_log.csv", "raw/days/_archive/v2/1.csv", "raw/days/.x", content="noise")
    assert not changed()
    raw.delete("raw/days/3.csv")
    assert changed()
    assert versions[-1] == versions[0]
    assert lake.data_version("days/*.csv", {}) != lake.data_version("days/1.csv", {})


def test_columns_of_headers_and_footers(raw):
    lake = catalog(raw)
    rows = pa.table({"id": pa.array([1], pa.int64()), "day": pa.array([None], pa.date32())})
    parquet, orc = io.BytesIO(), io.BytesIO()
    pq.write_table(rows, parquet)
    pyarrow.orc.write_table(rows, orc)
    raw.put("raw/rows.parquet", "raw/folder/a.parquet", content=parquet.getvalue())
    raw.put("raw/rows.orc", content=orc.getvalue())
    raw.put("raw/rows.csv.gz", content=gzip.compress(b"a,b\n1,2\n"))
    raw.put("raw/rows.csv.bz2", content=bz2.compress(b"a,b\n1,2\n"))
    raw.put("raw/broken.parquet", content=b"no parquet at all")
    assert lake.columns("orders.csv", {}) == (Field("id", "string"),)
    for packed in ("rows.csv.gz", "rows.csv.bz2"):
        assert lake.columns(packed, {}) == (Field("a", "string"), Field("b", "string"))
    for footer in ("rows.parquet", "folder"):
        assert lake.columns(footer, {}) == (Field("id", "bigint"), Field("day", "date"))
    assert [field.name for field in lake.columns("rows.orc", {})] == ["id", "day"]
    assert lake.columns("more/x.json", {}) is None
    assert lake.relation("folder", {}).schema == "`id` bigint, `day` date"
    error = refused(lake.columns, "broken.parquet", {})
    assert (error.code, "broken.parquet cannot be read as parquet" in str(error)) == ("RVT-403", True)


def test_few_requests_are_made(raw):
    """The listing of a folder tells all about its files, and what is archived is not listed."""
    raw.put(*(f"raw/many/{number}.csv" for number in range(40)))
    raw.put(*(f"raw/many/_archive/{number}/0.csv" for number in range(40)))
    asked = []

    class Counting:
        def __init__(self, client):
            self.client = client

        def get_file_info(self, what):
            asked.append(what)
            return self.client.get_file_info(what)

    for table, most in (("many", 2), ("many/*.csv", 5)):
        lake = catalog(raw)
        lake._store.client = Counting(lake._store.client)
        asked.clear()
        lake.data_version(table, {})
        assert len(asked) <= most
        assert len(lake.files(table, {})) == 40


# what is missing or wrong


def test_missing_tables(raw):
    lake = catalog(raw)
    assert "raw/order.csv does not exist; did you mean 'orders.csv'?" in str(refused(lake.relation, "order.csv", {}))
    assert f"nor does the folder s3a://{raw.name}/raw/no" in str(refused(lake.columns, "no/x", {}))
    assert "no file matches" in str(refused(lake.data_version, "days/*.json", {}))
    raw.put("raw/empty/_SUCCESS")
    assert "holds no data file" in str(refused(lake.relation, "empty", {}))
    assert lake.relation("empty", {"schema": "id INT", "format": "csv"}).format == "csv"


def questions(lake: FilesystemCatalog) -> list[str]:
    """Return the texts of all errors of the catalog's methods."""
    zone = lake.landing_zone("days", {})
    asked = [refused(ask, "days", {}) for ask in (lake.relation, lake.columns, lake.data_version, lake.files)]
    asked.append(refused(zone.files))
    assert {error.code for error in asked} == {"RVT-403"}
    (finding,) = lake.examine(publishes=False)
    assert (finding.status, finding.code) == (FAIL, "RVT-403")
    return [*map(str, asked), f"{finding.text} {finding.remedy}"]


def test_a_bucket_that_does_not_exist(bucket):
    gone = Bucket(bucket.url, "gone", bucket.owner)
    for text in questions(catalog(gone)):
        assert "there is no bucket 'gone'" in text
        assert "Create it" in text


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"access_key": "AKIAUNKNOWN"}, "the store does not accept the keys (invalid_access_key_id)"),
        ({"secret_key": "another-secret"}, "the store does not accept the keys (signature_does_not_match)"),
        ({}, "the store does not permit"),
    ],
)
def test_wrong_keys_and_missing_rights(unchanged, keys, message):
    given = {**unchanged.keys_of_user(), **keys}
    lake = catalog(unchanged, options={**unchanged.options, **given})
    with rights_enforced():
        found = questions(lake)
    for text in found:
        assert message in text
        assert not [key for key in given.values() if key in text]
        assert "`access_key`" in text or "Give these keys the right" in text


def test_keys_of_the_environment(unchanged, monkeypatch):
    options = {"endpoint": unchanged.url, "region": unchanged.options["region"]}
    keys = unchanged.keys_of_user("GetObject", "ListBucket")
    with rights_enforced():
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys["access_key"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys["secret_key"])
        assert len(catalog(unchanged, options=options).files("days", {})) == 2
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        assert "does not accept the keys" in str(refused(catalog(unchanged, options=options).files, "days", {}))


def test_a_store_that_does_not_answer(bucket, monkeypatch):
    monkeypatch.setattr(store, "ATTEMPTS", 1)
    monkeypatch.setattr(store, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(store, "CONNECT_SECONDS", 1.0)
    with socket.socket() as mute, socket.socket() as closed:
        for listener in (mute, closed):
            listener.bind(("127.0.0.1", 0))
        mute.listen()
        for listener, why in ((mute, "Timeout was reached"), (closed, "Could not connect to server")):
            far = Bucket(f"http://127.0.0.1:{listener.getsockname()[1]}", bucket.name)
            error = refused(catalog(far).files, "days", {})
            assert error.code == "RVT-403"
            assert f"cannot be listed: the store does not answer: {why}" in str(error)
            assert "`endpoint`" in str(error)


def test_a_catalog_in_a_store_publishes_nothing(unchanged):
    lake = catalog(unchanged)
    error = refused(lake.begin, "orders")
    assert (error.code, "iceberg" in str(error)) == ("RVT-402", True)
    assert (lake.current("orders"), lake.versions("orders"), lake.tables("")) == (None, (), ())
    assert (lake.sweep(), lake.building()) == ((), ())
    (readable,), (refusal,) = lake.examine(False), lake.examine(True)
    assert (readable.status, readable.text) == (OK, f"s3a://{unchanged.name}/raw: can be read")
    assert (refusal.code, "iceberg" in refusal.remedy) == ("RVT-402", True)


# landing zones


def zone(bucket: Bucket, table: str = "zone", **options: object):
    return catalog(bucket, ".", format="csv").landing_zone(table, options)


LANDED = ("a.csv", "b c.csv", "[x]*.csv", "2026/01/d.csv", "2026/day=1/e.csv", "%41.csv", "ümlaut.csv")
NOT_LANDED = (".hidden.csv", "_tmp.csv", "_archive/v1/a.csv", "2026/_archive/v1/d.csv", "_day/z.csv")


@pytest.fixture
def landed(bucket: Bucket) -> Bucket:
    bucket.put(*(f"zone/{name}" for name in (*LANDED, *NOT_LANDED)))
    return bucket


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("zone", sorted(LANDED)),
        ("zone/*.csv", ["%41.csv", "[x]*.csv", "a.csv", "b c.csv", "ümlaut.csv"]),
        ("zone/*", sorted(LANDED)),
        ("zone/*/*/*.csv", ["2026/01/d.csv", "2026/day=1/e.csv"]),
        ("zone/_archive/v1/*.csv", ["_archive/v1/a.csv"]),
        ("zone/no*", []),
        ("nothing/yet", []),
    ],
)
def test_a_landing_zone_is_a_folder_or_a_glob(landed, table, expected):
    assert [file.path.removeprefix("zone/") for file in zone(landed, table).files()] == expected


def test_a_landing_zone_is_no_file(landed):
    assert "zone/a.csv is a file" in str(refused(zone(landed, "zone/a.csv").files))


def test_a_relation_of_a_landing_zone_has_exactly_the_given_files(landed):
    one = zone(landed, sep=";")
    chosen = [file for file in one.files() if "[x]" in file.path or file.path.endswith("d.csv")]
    relation = one.relation(chosen)
    home = f"s3a://{landed.name}/zone"
    assert relation.paths == (f"{home}/2026/01/d.csv", f"{home}/[x]*.csv")
    assert relation.options == {**CSV, "sep": ";", "basePath": home}


def test_only_the_given_files_are_archived(landed):
    one = zone(landed)
    chosen = [file for file in one.files() if file.path.endswith(("d.csv", "*.csv", "b c.csv"))]
    one.archive(chosen, "v2")
    moved = {"2026/01/d.csv", "[x]*.csv", "b c.csv"}
    expected = {name for name in (*LANDED, *NOT_LANDED) if name not in moved}
    expected |= {"2026/01/_archive/v2/d.csv", "_archive/v2/[x]*.csv", "_archive/v2/b c.csv"}
    assert set(landed.objects()) == {f"zone/{name}" for name in expected}
    assert {file.path for file in one.files()} == {f"zone/{name}" for name in set(LANDED) - moved}


def test_a_landing_zone_of_which_all_is_archived_is_empty(bucket):
    bucket.put("zone/a.csv")
    assert zone(bucket).archived() is None
    zone(bucket).archive(zone(bucket).files(), "v1")
    assert bucket.objects() == ["zone/_archive/v1/a.csv"]
    assert zone(bucket).files() == ()
    assert zone(bucket).archived() == f"s3a://{bucket.name}/zone/_archive/v1/a.csv"


def test_changed_or_removed_files_are_not_archived(bucket):
    bucket.put("zone/a.csv", "zone/b.csv", "zone/c.csv", "zone/d.csv")
    files = zone(bucket).files()
    bucket.put("zone/a.csv", content="id\n1\n2\n")
    bucket.make_older("zone/b.csv")
    bucket.delete("zone/c.csv")
    zone(bucket).archive(files, "v1")
    assert bucket.objects() == ["zone/_archive/v1/d.csv", "zone/a.csv", "zone/b.csv"]


def archived_while(bucket: Bucket, happens) -> None:
    """Archive all files; ``happens`` right after each copy."""
    copy = store_tree.StoreTree._copy

    def interrupted(tree, path, target):
        copy(tree, path, target)
        happens()

    with patch.object(store_tree.StoreTree, "_copy", interrupted):
        zone(bucket).archive(zone(bucket).files(), "v1")


def test_a_file_that_is_replaced_while_it_is_archived_stays(bucket):
    bucket.put("zone/a.csv")
    archived_while(bucket, lambda: bucket.put("zone/a.csv", content="another"))
    assert (bucket.objects(), bucket.get("zone/a.csv")) == (["zone/a.csv"], b"another")


def test_two_processes_may_archive_the_same_file(bucket):
    bucket.put("zone/a.csv")
    files = zone(bucket).files()
    archived_while(bucket, lambda: store_tree.StoreTree(catalog(bucket, ".")._store)._delete(Path("/zone/a.csv")))
    assert bucket.objects() == ["zone/_archive/v1/a.csv"]  # the other one may have the same copy, and no other
    zone(bucket).archive(files, "v2")
    assert bucket.objects() == ["zone/_archive/v1/a.csv"]


class Recording:
    """A client that records its calls."""

    def __init__(self, client):
        self.client, self.calls = client, []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append(name)
            return getattr(self.client, name)(*arguments)

        return call


def test_archiving_asks_four_times_for_a_file_and_once_for_a_folder(bucket):
    """Before, after the copy; where they go is listed. Several are moved at once, or the barrier would break."""
    counted = []
    for count in (4, 12):
        bucket.put(*(f"zone/{folder}/{number}.csv" for number in range(count) for folder in "ab"))
        lake = catalog(bucket, ".")
        lake._store.client = recording = Recording(lake._store.client)
        one = lake.landing_zone("zone", {})
        files = one.files()
        recording.calls.clear()
        two, copy = Barrier(2), store_tree.StoreTree._copy

        def waiting(tree, path, target, copy=copy, two=two):
            two.wait(timeout=20)
            copy(tree, path, target)

        with patch.object(store_tree.StoreTree, "_copy", waiting):
            one.archive(files, f"v{count}")
        counted.append(Counter(recording.calls))
        assert one.files() == ()
    assert counted == [{"get_file_info": 2 * files + 2, "copy_file": files, "delete_file": files} for files in (8, 24)]


def test_archived_files_are_not_overwritten_and_other_files_are_moved(bucket):
    bucket.put("zone/a.csv", "zone/b.csv")
    bucket.put("zone/_archive/v1/a.csv", content="older")
    error = refused(zone(bucket).archive, zone(bucket).files(), "v1")
    assert error.code == "RVT-410"
    assert f"zone/a.csv: s3a://{bucket.name}/zone/_archive/v1/a.csv exists already" in str(error)
    assert bucket.get("zone/_archive/v1/a.csv") == b"older"
    assert bucket.objects() == ["zone/_archive/v1/a.csv", "zone/_archive/v1/b.csv", "zone/a.csv"]


def test_a_move_that_was_interrupted_after_the_copy_is_completed(bucket):
    bucket.put("zone/a.csv")

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archived_while(bucket, die)
    assert bucket.objects() == ["zone/_archive/v1/a.csv", "zone/a.csv"]
    zone(bucket).archive(zone(bucket).files(), "v1")
    assert bucket.objects() == ["zone/_archive/v1/a.csv"]
    bucket.put("zone/a.csv", content="id\n2\n")  # as long as the one in the archive
    assert refused(zone(bucket).archive, zone(bucket).files(), "v1").code == "RVT-410"


def test_files_that_may_not_be_moved(bucket):
    bucket.put("zone/a.csv", "zone/b.csv")
    files = zone(bucket).files()
    for more, call in (((), "CopyObject"), (("PutObject",), "DeleteObject")):
        options = {**bucket.options, **bucket.keys_of_user("GetObject", "ListBucket", *more)}
        limited = catalog(bucket, ".", options=options).landing_zone("zone", {})
        with rights_enforced():
            error = refused(limited.archive, files, "v1")
        assert error.code == "RVT-410"
        assert f"cannot archive s3a://{bucket.name}/zone/a.csv: the store does not permit {call}" in str(error)
    assert [file.path for file in zone(bucket).files()] == ["zone/a.csv", "zone/b.csv"]


def test_a_store_that_renames_is_asked_to_rename(tmp_path, monkeypatch):
    """As HDFS does; pyarrow's local file system stands for its own of HDFS."""
    monkeypatch.setitem(store._CLIENTS, "hdfs", lambda uri, options: pyarrow.fs.LocalFileSystem())
    options = {"path": f"hdfs://node{tmp_path}", "format": "csv"}
    lake = FilesystemCatalog(CatalogSpec("raw", "filesystem", options), tmp_path)
    assert "does not exist" in str(refused(lake.landing_zone("zone", {}).files))
    (tmp_path / "zone").mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "zone" / name).write_text("id\n1\n")
    one = lake.landing_zone("zone", {})
    files = one.files()
    assert one.relation(files).paths == tuple(f"hdfs://node{tmp_path}/zone/{name}.csv" for name in "ab")
    one.archive(files[:1], "v1")
    assert [file.path for file in one.files()] == ["zone/b.csv"]
    assert (tmp_path / "zone/_archive/v1/a.csv").read_text() == "id\n1\n"
    (tmp_path / "zone/_archive/v1/b.csv").write_text("older")
    assert refused(one.archive, files, "v1").code == "RVT-410"


# declarations


def test_uris_and_what_pyarrow_takes():
    for text, shown, key in (
        ("s3://lake/raw/", "s3a://lake/raw", "lake/raw/x"),
        ("gs://lake", "gs://lake/", "lake/x"),
        ("abfss://raw@account.dfs.core.windows.net/y", "abfss://raw@account.dfs.core.windows.net/y", "raw/y/x"),
        ("hdfs://node:8020/y", "hdfs://node:8020/y", "/y/x"),
        ("hdfs:///y", "hdfs:///y", "/y/x"),
    ):
        uri = StoreUri.of(text)
        assert str(uri) == shown
        assert store.Store(uri, {}).key(uri.path / "x") == key
    for wrong in ("s3a:///raw", "s3a:/lake/raw", "abfss://account/raw", "s3a://key:secret@lake", "http://lake/raw"):
        with pytest.raises(ValueError):
            StoreUri.of(wrong)


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("s3a://lake", {"endpoint": "minio:9000"}, "needs a URL like https://minio.example:9000"),
        ("s3a://lake", {"endpoint": "http://u:p@minio/x"}, "needs a URL like https://minio.example:9000"),
        ("s3a://lake", {"secret_key": "hunter2"}, "needs both `access_key` and `secret_key`"),
        ("s3a://lake", {"access_key": 3, "secret_key": "x"}, "needs a text for `access_key`, not this"),
        ("s3a://lake", {"regoin": "eu"}, "unknown key 'regoin'; did you mean 'region'?"),
        ("s3a://lake", "hunter2", "must be a mapping"),
        ("gs://lake", {"region": "eu"}, "unknown key 'region'; such a store has none"),
        ("data", {"region": "eu"}, "`options` is for a `path` in a store"),
        ("file:///data", {"region": "eu"}, "`options` is for a `path` in a store"),
        ("${LAKE}", {"regoin": "eu"}, "unknown key 'regoin'"),
        ("s3a://hunter2:hunter2@lake", {}, "`path` must be a URI like s3a://bucket/folder (keys stand in `options`)"),
    ],
)
def test_wrong_declarations(path, options, message):
    error = refused(FilesystemCatalog, CatalogSpec("raw", "filesystem", {"path": path, "options": options}), Path("/"))
    assert message in str(error)
    assert "hunter2" not in str(error)
    assert error.exit_code == 10


def test_values_that_are_not_known_yet_are_not_judged():
    options = {"endpoint": "${URL}", "access_key": "${KEY}", "secret_key": "${SECRET}", "region": "${REGION}"}
    for path in ("s3a://${BUCKET}/raw", "${LAKE}"):
        assert FilesystemCatalog.check({"path": path, "options": options}) == {}


def test_secrets_of_the_environment_are_redacted(unchanged):
    options = {**unchanged.options, "access_key": "${KEY}", "secret_key": "${SECRET}"}
    spec = CatalogSpec("raw", "filesystem", {"path": f"s3a://{unchanged.name}/raw", "options": options})
    environ = {"KEY": unchanged.owner["access_key"], "SECRET": unchanged.owner["secret_key"]}
    lake = open_catalog(spec, Path("/"), environ)
    assert len(lake.files("days", {})) == 2
    needs = lake.session_needs("pyspark")
    assert environ["SECRET"] not in repr(needs)
    assert redacted(str(needs.config)).count("${SECRET}") == 1
    assert environ["KEY"] not in redacted(str(needs.config))


def test_the_catalog_of_the_documentation():
    page = (Path(__file__).parents[3] / "docs/object-stores.md").read_text()
    profile, source = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    declared = profile["default"]["catalogs"][source["catalog"]]
    assert FilesystemCatalog.check({key: value for key, value in declared.items() if key != "type"}) == {}
    own = {key: value for key, value in source["options"].items() if key not in ("landing", "archive")}
    assert list(FilesystemCatalog.check_table(declared, source["table"], own, False)) == []
    (refusal,) = FilesystemCatalog.check_table(declared, "out", {}, True)
    assert (refusal.code, "iceberg" in refusal.remediation) == ("RVT-402", True)


# what Spark needs


def test_each_bucket_has_settings_of_its_own(bucket, monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    lake = catalog(bucket)
    needs = lake.session_needs("pyspark")
    assert needs.config == {
        f"spark.hadoop.fs.s3a.bucket.{bucket.name}.{key}": value
        for key, value in {
            "endpoint": bucket.url,
            "path.style.access": "true",
            "endpoint.region": bucket.options["region"],
            "access.key": bucket.owner["access_key"],
            "secret.key": bucket.owner["secret_key"],
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        }.items()
    }
    assert lake.session_needs("duckdb").config == {}


def spark_of(root: Path, *jars: str) -> str:
    (root / "jars").mkdir(parents=True)
    for jar in jars:
        (root / "jars" / jar).touch()
    return str(root)


def test_the_connector_has_the_version_of_sparks_hadoop(tmp_path, monkeypatch):
    def packages(path: str, *jars: str) -> tuple[str, ...]:
        monkeypatch.setenv("SPARK_HOME", spark_of(tmp_path / str(len(list(tmp_path.iterdir()))), *jars))
        spec = CatalogSpec("raw", "filesystem", {"path": path})
        return FilesystemCatalog(spec, tmp_path).session_needs("pyspark").packages

    api = "hadoop-client-api-3.4.7.jar"
    assert packages("s3a://lake", api) == ("org.apache.hadoop:hadoop-aws:3.4.7",)
    assert packages("s3a://lake", api, "hadoop-aws-3.4.7.jar") == ()
    assert packages("s3a://lake") == ()
    assert packages("abfss://raw@account.dfs.core.windows.net", api) == ("org.apache.hadoop:hadoop-azure:3.4.7",)
    assert packages("gs://lake", api) == packages("hdfs://node/x", api) == packages("lake", api) == ()


def test_a_listed_file_is_the_same_in_a_later_listing(landed):
    first, second = zone(landed).files(), zone(landed, "zone/*").files()
    assert first == second
    assert all(isinstance(file, LandedFile) and file.mtime_ns % 10**9 == 0 for file in first)
