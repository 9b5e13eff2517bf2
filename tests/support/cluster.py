"""A standalone Spark cluster on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from rivet_dagster.engines.pyspark.java import find_java, prepare_java
from support.class_archive import java_options

_SECONDS = 120
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
_DEPLOY = "org.apache.spark.deploy"


@dataclass(frozen=True)
class Node:
    """A process of the cluster, the leader of its own process group, and its log."""

    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """Kill the process and the executors that it has started."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait_for(self, text: str | re.Pattern[str]) -> re.Match[str]:
        """Return the first match in the log, as soon as there is one."""
        pattern = re.compile(re.escape(text)) if isinstance(text, str) else text
        deadline = time.monotonic() + _SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            if found := pattern.search(self.log.read_text()):
                return found
            time.sleep(0.2)
        raise AssertionError(f"'{pattern.pattern}' is not in the log: {self.log.read_text()[-2000:]}")


@dataclass(frozen=True)
class Cluster:
    """A master, its address, and its workers."""

    master: Node
    address: str
    workers: tuple[Node, ...]


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2, memory: str = "1g") -> Iterator[Cluster]:
    """Yield a cluster whose workers have one core each; all of it ends with the block."""
    nodes = []
    try:
        master = _start(folder, "master", ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"])
        nodes.append(master)
        address = master.wait_for(_MASTER)[1]
        for number in range(workers):
            own = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", memory]
            nodes.append(_start(folder, f"worker {number}", [*own, "-d", str(folder / f"work {number}"), address]))
        for worker in nodes[1:]:
            worker.wait_for(_REGISTERED)
        yield Cluster(master, address, tuple(nodes[1:]))
    finally:
        for node in nodes:
            if node.process.poll() is None:
                node.kill()


def _start(folder: Path, name: str, arguments: list[str]) -> Node:
    class_ = f"{_DEPLOY}.{name.split()[0]}.{name.split()[0].capitalize()}"
    environ = dict(os.environ)
    prepare_java(find_java(environ), environ)
    environ["SPARK_DAEMON_MEMORY"] = "256m"
    environ["SPARK_DAEMON_JAVA_OPTS"] = java_options()
    environ.pop("LOG4J_CONFIGURATION_FILE", None)  # the engine's, in which nothing but warnings is logged
    command = [f"{Path(pyspark.__file__).parent}/bin/spark-class", class_, *arguments]
    log = folder / f"{name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=output, stderr=output, start_new_session=True
        )
    return Node(process, log)
