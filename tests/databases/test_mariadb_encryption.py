"""Encrypted connections to MariaDB, of Spark's reader and of this process: the server proves who it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.certificates import make_certificate
from support.mariadb import MariaDB, MariaSchema, profiles, tls_server

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import CatalogSpec


@pytest.fixture(scope="module")
def encrypted() -> Iterator[tuple[MariaSchema, Path]]:
    """Yield a database with a table, and the certificate of its server."""
    with tls_server() as (server, certificate):
        database = server.database()
        database.execute("CREATE TABLE orders (id int)", "INSERT INTO orders VALUES (7)")
        yield database, certificate


def catalog(database: MariaSchema, **options: Any) -> JdbcCatalog:
    declared = {"url": database.jdbc, "user": database.user, "password": database.password, "reads": "locked"}
    return JdbcCatalog(CatalogSpec("shop", "jdbc", {**declared, **options}), Path())


def failure(declared: JdbcCatalog) -> RivetError:
    with pytest.raises(RivetError) as caught:
        declared.tables("")
    return caught.value


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("mode", ["verify-full", "verify-ca", "require"])
def test_rows_are_read_and_published_by_encrypted_connections(project, encrypted, mode):
    database, certificate = encrypted
    tls = {"sslmode": mode} | ({"sslrootcert": "root.crt"} if mode != "require" else {})
    files = {
        "root.crt": certificate.read_bytes(),
        "profiles.yaml": profiles(database, **tls),
        "sources/orders.yaml": {"type": "source", "catalog": "shop", "table": "orders"},
        "joints/next.sql": "SELECT id + 1 AS id FROM orders",
        "sinks/made.yaml": {"type": "sink", "catalog": "shop", "table": f"of {mode}", "upstream": ["next"]},
    }
    project(files).run_all()
    assert database.rows(f"SELECT * FROM `of {mode}`") == [(8,)]


def test_a_server_that_cannot_prove_who_it_is_is_refused(encrypted, tmp_path):
    database, certificate = encrypted
    other, _ = make_certificate(tmp_path, None)
    for mode in ("verify-ca", "verify-full"):
        error = failure(catalog(database, sslmode=mode, sslrootcert=str(other)))
        assert (error.code, "certificate verify failed" in str(error)) == ("RVT-403", True)
    url = database.jdbc.replace("127.0.0.1", "localhost")
    error = failure(catalog(database, url=url, sslmode="verify-full", sslrootcert=str(certificate)))
    assert (error.code, "not valid for 'localhost'" in str(error)) == ("RVT-403", True)
    assert catalog(database, url=url, sslmode="verify-ca", sslrootcert=str(certificate)).tables("ord") == ("orders",)


def test_a_connection_is_not_encrypted_where_it_shall_not_be_or_cannot(encrypted, mariadb: MariaDB):
    error = failure(catalog(encrypted[0], sslmode="disable"))
    assert (error.code, "access is refused" in str(error)) == ("RVT-403", True)
    plain = mariadb.database()
    for mode in ("require", "verify-full"):
        error = failure(catalog(plain, sslmode=mode))
        assert (error.code, "SSL is required but the server doesn't support it" in str(error)) == ("RVT-403", True)
    assert catalog(plain, sslmode="disable").tables("nothing") == ()
