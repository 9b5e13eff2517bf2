"""A Spark distribution whose server is a few lines of Python: it starts in no time, and needs no Java."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark

_SUBMIT = """#!{python}
import json, os, signal, socket, sys, time
settings = dict(line.rstrip("\\n").split("=", 1) for line in open(sys.argv[sys.argv.index("--properties-file") + 1]))
with open("seen.json", "w") as file:
    json.dump({{"argv": sys.argv, "environ": dict(os.environ), "settings": settings, "cwd": os.getcwd()}}, file)
time.sleep(float(settings.get("spark.fake.seconds", 0)))
if "spark.fake.message" in settings:
    print("WARN a line before")
    sys.exit("java.lang.IllegalArgumentException: " + settings["spark.fake.message"])
if "spark.fake.stubborn" in settings:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with socket.create_server(("127.0.0.1", int(settings["spark.connect.grpc.binding.port"]))) as server:
    if "spark.fake.closes" in settings:
        server.accept()[0].close()
    else:
        while True:
            server.accept()[0].close()
time.sleep(3600)
"""
_JAVA = """#!/bin/sh
echo 'openjdk version "17.0.15" 2025-04-15'
echo '    java.home = {home}'
"""


def fake_spark(home: Path, version: str = pyspark.__version__) -> Path:
    """Make the distribution in ``home``, and return that."""
    _program(home / "bin" / "spark-submit", _SUBMIT.format(python=sys.executable))
    (home / "jars").mkdir()
    for jar in ("core", "connect"):
        (home / "jars" / f"spark-{jar}_2.13-{version}.jar").touch()
    return home


def fake_java(home: Path) -> Path:
    """Make a Java in ``home`` that only tells its version, and return that."""
    _program(home / "bin" / "java", _JAVA.format(home=home))
    return home


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
