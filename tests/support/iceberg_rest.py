"""A server of Iceberg's REST protocol: the servlet of Iceberg's own tests, in a JVM that this process drives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from rivet_dagster.engines.pyspark.java import find_java
from support.maven import jars

AWS = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
"""What Iceberg needs for tables on S3."""

# Of Iceberg 1.12 the jar of tests is not published.
_ICEBERG, _JETTY = "1.11.0", "12.1.5"
_JARS = (
    *(f"org.apache.iceberg:iceberg-{part}:{_ICEBERG}" for part in ("core", "api", "aws", "common", "bundled-guava")),
    f"org.apache.iceberg:iceberg-core:{_ICEBERG}:tests",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{_JETTY}",
    *(f"org.eclipse.jetty:jetty-{part}:{_JETTY}" for part in ("security", "server", "http", "util", "io", "session")),
    "jakarta.servlet:jakarta.servlet-api:6.0.0",
    "org.apache.httpcomponents.client5:httpclient5:5.6.1",
    "org.apache.httpcomponents.core5:httpcore5:5.4",
    "org.apache.httpcomponents.core5:httpcore5-h2:5.4",
    "com.github.ben-manes.caffeine:caffeine:2.9.3",
    "dev.failsafe:failsafe:3.3.2",
    "org.xerial:sqlite-jdbc:3.54.1.0",
    AWS,  # the SDK; its classes of Iceberg come behind those above
    "software.amazon.awssdk:url-connection-client:2.54.17",  # for S3, the only one that Iceberg 1.11 has in common
)
"""What else they need, Spark has."""

_JAVA_OPTIONS = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


@dataclass
class IcebergRest:
    """A JVM in which each catalog has a server of its own, on this machine alone."""

    _gateway: JavaGateway
    _servers: list[Any] = field(default_factory=list)

    def catalog(self, folder: Path, **properties: object) -> str:
        """Start the server of a catalog without tables, and return its URI.

        Its database is in ``folder``, which exists, and the tables as well unless ``properties`` of Iceberg's own
        name another warehouse.
        """
        java = self._gateway.jvm
        texts = {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in properties.items()
        }
        properties = {
            "uri": f"jdbc:sqlite:{folder}/rest.db",
            "warehouse": f"file://{folder}/warehouse",
            "clients": "1",  # SQLite has one writer at a time
            "jdbc.schema-version": "V1",
            "http-client.type": "urlconnection",
            **texts,
        }
        catalog = java.org.apache.iceberg.jdbc.JdbcCatalog()
        catalog.setConf(java.org.apache.hadoop.conf.Configuration())
        catalog.initialize("backend", properties)
        adapter = java.org.apache.iceberg.rest.RESTCatalogAdapter(catalog)
        ee10 = java.org.eclipse.jetty.ee10.servlet
        handler = ee10.ServletContextHandler()
        handler.addServlet(ee10.ServletHolder(java.org.apache.iceberg.rest.RESTCatalogServlet(adapter)), "/*")
        server = java.org.eclipse.jetty.server.Server(java.java.net.InetSocketAddress("127.0.0.1", 0))
        server.setHandler(handler)
        server.start()
        self._servers.append(server)
        return f"http://127.0.0.1:{server.getURI().getPort()}"


@contextmanager
def iceberg_rest_server(folder: Path) -> Iterator[IcebergRest]:
    """Yield a JVM without catalogs, which writes its log to ``folder``."""
    installed = find_spec("pyspark")
    assert installed is not None
    assert installed.origin is not None
    spark = Path(installed.origin).parent / "jars"
    (py4j,) = spark.glob("py4j-*.jar")
    with (folder / "server.log").open("w") as log:
        port, token, process = launch_gateway(
            jarpath=str(py4j),
            classpath=os.pathsep.join([*jars(*_JARS), f"{spark}/*"]),
            javaopts=_JAVA_OPTIONS,
            java_path=str(find_java(os.environ).executable),
            die_on_exit=True,
            enable_auth=True,
            redirect_stdout=log,
            redirect_stderr=log,
            return_proc=True,
        )
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        gateway = JavaGateway(gateway_parameters=parameters)
        try:
            yield IcebergRest(gateway)
        finally:
            gateway.close()
            process.kill()
            process.wait(30)
