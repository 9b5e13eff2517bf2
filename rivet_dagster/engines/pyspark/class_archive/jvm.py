"""The JVM that an archive of classes is made for: a Java, a Spark, and what else is on the class path."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rivet_dagster.engines.pyspark.config import JARS, PACKAGES, list_setting
from rivet_dagster.engines.pyspark.java import Java

CLASS_PATH = "spark.driver.extraClassPath"
_FIRST_AHEAD_OF_TIME = 25
_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
_ON_THE_CLASS_PATH = (*_FOLDERS, "SPARK_DIST_CLASSPATH", "SPARK_PREPEND_CLASSES", "SPARK_SCALA_VERSION")
"""Variables with which Spark's launcher makes the class path."""


@dataclass(frozen=True)
class SparkJvm:
    """A JVM that Spark starts in: ``home`` is Spark's, ``class_path`` the setting of that name.

    ``environ`` are the variables that have a part in the class path.
    """

    java: Java
    home: Path
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    class_path: str = ""
    environ: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, java: Java, home: Path, config: Mapping[str, str], environ: Mapping[str, str]) -> SparkJvm:
        """Return the JVM that starts with the settings ``config``."""
        variables = tuple((name, environ[name]) for name in _ON_THE_CLASS_PATH if environ.get(name))
        packages, jars = tuple(sorted(list_setting(config, PACKAGES))), tuple(sorted(list_setting(config, JARS)))
        return cls(java, home.resolve(), packages, jars, config.get(CLASS_PATH, ""), variables)

    @property
    def key(self) -> str:
        """A text that differs for JVMs that cannot use the same archive; it is a good name for a file."""
        parts = [
            *_states(self.java.home.resolve(), ("lib/modules", "lib/server", "release")),
            *_states(self.home, ("jars",)),
            *(f"{name}={value}" for name, value in self.environ),
            *self.packages,
            *(line for jar in self.jars for line in _state(Path(jar.removeprefix("file://").removeprefix("file:")))),
            self.class_path,
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    @property
    def without_jars(self) -> SparkJvm:
        """JVM without the packages and jars, whose archive this one can use, too: they are not on the class path."""
        return SparkJvm(self.java, self.home, class_path=self.class_path, environ=self.environ)

    @property
    def is_ahead_of_time(self) -> bool:
        """Whether its Java makes ahead-of-time caches, which hold profiles of methods besides classes."""
        return self.java.major >= _FIRST_AHEAD_OF_TIME

    @property
    def wants_unique_entries(self) -> bool:
        """Whether its Java uses an archive only where no entry of the class path is repeated, as Spark's launcher does.

        Java 18 to 24 leave out repeated entries when they write an archive, but not when they compare with it.
        """
        return 17 < self.java.major < _FIRST_AHEAD_OF_TIME

    @property
    def has_base(self) -> bool:
        """Whether its Java has an archive of its own classes, on which another one can build."""
        return (self.java.home / "lib/server/classes.jsa").is_file()

    @property
    def obstacle(self) -> str | None:
        """Why Java cannot archive the classes of this JVM, None where nothing speaks against it."""
        variables = dict(self.environ)
        folders = [Path(variables.get("SPARK_CONF_DIR") or self.home / "conf")]
        folders += [Path(variables[name]) for name in _FOLDERS if name in variables]
        folders += [Path(entry) for entry in self.class_path.split(os.pathsep) if entry and not entry.endswith("*")]
        for folder in folders:
            if _has_files(folder):
                return f"Java archives no classes while a folder with files is on the class path: {folder}"
        return None

    def to_json(self) -> str:
        """Return the JVM as a text."""
        java = {"home": str(self.java.home), "major": self.java.major, "trimmed": self.java.trimmed}
        return json.dumps(
            {
                "java": java,
                "home": str(self.home),
                "packages": self.packages,
                "jars": self.jars,
                "class_path": self.class_path,
                "environ": self.environ,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> SparkJvm:
        """Return the JVM of a text that ``to_json`` made."""
        value = json.loads(text)
        java = Java(Path(value["java"]["home"]), value["java"]["major"], value["java"]["trimmed"])
        environ = tuple((name, variable) for name, variable in value["environ"])
        home, packages, jars = Path(value["home"]), tuple(value["packages"]), tuple(value["jars"])
        return cls(java, home, packages, jars, value["class_path"], environ)


def _has_files(folder: Path) -> bool:
    """Return whether a folder has files; True for one that this user cannot list."""
    try:
        return any(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _states(folder: Path, names: tuple[str, ...]) -> Iterator[str]:
    """Yield the states of files of a folder, and of the files in folders of it."""
    yield str(folder)
    for name in names:
        path = folder / name
        if path.is_dir():
            with os.scandir(path) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    yield from _state(Path(entry.path))
        else:
            yield from _state(path)


def _state(path: Path) -> Iterator[str]:
    """Yield the size and time of a file: by these, too, a JVM judges whether an archive fits its class path."""
    try:
        state = path.stat()
    except OSError:
        yield str(path)
    else:
        yield f"{path} {state.st_size} {state.st_mtime_ns}"
