"""Making an archive: Spark runs a few small queries in a JVM that keeps what it has loaded when it ends.

Whether Spark's JVM starts from an archive, what happens where there is none yet, and what `doctor` finds.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rivet_dagster.engines.pyspark.class_archive.jvm import CLASS_PATH, SparkJvm
from rivet_dagster.engines.pyspark.class_archive.options import (
    ARGUMENTS,
    OPTIONS,
    quiet_options,
    quote_option,
    use_options,
)
from rivet_dagster.engines.pyspark.class_archive.store import (
    VARIABLE,
    Archive,
    add_archive,
    base_of,
    find_archive,
    log_of,
    make_folder,
    writable_by_others,
)
from rivet_dagster.engines.pyspark.java import Java, prepare_java
from rivet_dagster.engines.pyspark.spark_home import distribution, module_command
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, doubtful, in_order

LEAST_FREE = 2 * 2**30
"""The bytes that have to be free for an archive that nobody asked for."""
_SECONDS = 600.0
_RETRY_SECONDS = 24 * 3600.0
_PRINTED = "Spark Command: "
_TRAINING = "rivet_dagster.engines.pyspark.archive_training"


def may_make_itself(folder: Path, jvm: SparkJvm, environ: Mapping[str, str]) -> bool:
    """Return whether an archive is made in ``folder`` though nobody has asked for it.

    Not where the machine is short-lived (CI, a pod of Kubernetes) or its disk nearly full, where Java cannot make one,
    nor within a day after it could not be made.
    """
    if environ.get("CI", "").lower() not in ("", "0", "false") or "KUBERNETES_SERVICE_HOST" in environ:
        return False
    with suppress(OSError):
        present = next(place for place in (folder, *folder.parents) if place.exists())
        if not os.access(present, os.W_OK) or writable_by_others(present.resolve()) is not None:
            return False
        if shutil.disk_usage(present).free < LEAST_FREE:
            return False
        log = log_of(folder, jvm)
        failed = log.exists() and time.time() - log.stat().st_mtime < _RETRY_SECONDS
        return not failed and jvm.obstacle is None
    return False


def begin_making(folder: Path, jvm: SparkJvm) -> None:
    """Start a process that makes an archive, which outlives this one and leaves the processors to all others."""
    order = json.dumps({"folder": str(folder), "jvm": jvm.to_json()})
    with suppress(OSError):  # without processes or memory to spare there is no archive, as before
        started = subprocess.Popen(
            module_command(__name__),
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert started.stdin is not None
        with started.stdin as pipe:
            pipe.write(order)
        started.returncode = 0  # nobody waits for it, and Python shall not warn of that


def main() -> None:
    """Read from stdin what to make, make it unless another process does, and log it beside the archive."""
    order = json.loads(sys.stdin.read())
    _take_spare_time()
    with suppress(RivetError, OSError):  # the log says why; `doctor` names it
        make_archive(Path(order["folder"]), SparkJvm.from_json(order["jvm"]))


def make_archive(folder: Path, jvm: SparkJvm) -> Archive | None:
    """Make the archive of a JVM, with at most 512 MB of heap; None if another process makes one in ``folder`` now.

    An intact one is returned as it is. Raises RVT-526, and OSError if ``folder`` cannot be written.
    """
    if jvm.obstacle is not None:
        raise RivetError("RVT-526", jvm.obstacle)
    with make_folder(folder) as made:
        if made is None:
            return None
        archive = find_archive(folder, jvm)
        if isinstance(archive, Archive):
            return archive
        log = log_of(folder, jvm)
        log.unlink(missing_ok=True)
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as output:
            try:
                files = _made_files(jvm, made, base_of(folder, jvm), output.fileno())
            except (OSError, subprocess.SubprocessError) as error:
                base_of(folder, jvm).unlink(missing_ok=True)
                remedy = f"Its log says more: {log}. Without an archive Spark starts as before, only slower."
                raise RivetError("RVT-526", f"the archive was not made: {error}", remediation=remedy) from error
        return add_archive(folder, jvm, made, files)


def _made_files(jvm: SparkJvm, made: Path, base: Path, log: int) -> tuple[Path, ...]:
    """Make the files of an archive in the folder ``made``, but for ``base``, that of Java's own classes.

    Most distributions of Java have that one already. Raises OSError, SubprocessError.
    """
    files: tuple[Path, ...] = (made / ("classes.aot" if jvm.is_ahead_of_time else "classes.jsa"),)
    options = [quiet_options(jvm)]
    if jvm.is_ahead_of_time:
        options.append(quote_option(f"-XX:AOTCacheOutput={files[0]}"))
    else:
        options.append(quote_option(f"-XX:ArchiveClassesAtExit={files[0]}"))
        if jvm.wants_unique_entries:
            files = (*files, made / ARGUMENTS)
            files[-1].write_text(class_path_arguments(launch_command(jvm)), encoding="utf-8")
            options.append(quote_option(f"@{files[-1]}"))
        if not jvm.has_base:
            files = (base, *files)
            shared = f"-XX:SharedArchiveFile={base}"
            command = [str(jvm.java.executable), "-Xshare:dump", "-Xlog:cds*=off", shared]
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=_SECONDS, check=True)
            options.append(quote_option(shared))
    with tempfile.TemporaryDirectory(prefix="rivet-archive-") as place:
        environ = _environ(jvm) | {OPTIONS: " ".join(options), VARIABLE: "false"}
        prepare_java(jvm.java, environ)
        training = subprocess.Popen(
            module_command(_TRAINING, place, jvm.to_json()),
            cwd=place,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            code = training.wait(_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(training.pid, 9)  # its JVM, too, if it hangs
            training.wait()
    if code != 0:
        raise subprocess.CalledProcessError(code, "the queries for it")
    if missing := [file.name for file in files if not file.is_file()]:
        raise FileNotFoundError(f"Java has not written {', '.join(missing)}")
    return files


def launch_command(jvm: SparkJvm) -> list[str]:
    """Return the command with which Spark's launcher starts a JVM. Raises OSError, SubprocessError."""
    environ = _environ(jvm) | {"SPARK_PRINT_LAUNCH_COMMAND": "1"}
    prepare_java(jvm.java, environ)
    submit = [str(jvm.home / "bin" / "spark-submit")]
    if jvm.class_path:
        submit += ["--conf", f"{CLASS_PATH}={jvm.class_path}"]
    answer = subprocess.run([*submit, "--version"], env=environ, capture_output=True, text=True, timeout=_SECONDS)
    printed = [line for line in answer.stderr.splitlines() if line.startswith(_PRINTED)]
    if not printed:
        raise subprocess.SubprocessError(f"Spark's launcher tells no command: {answer.stderr[-500:]}")
    return printed[0].removeprefix(_PRINTED).split()


def class_path_arguments(command: Sequence[str]) -> str:
    """Return the class path of a command of Spark's launcher with no entry repeated, as a file of arguments has it.

    >>> class_path_arguments(["java", "-cp", "/spark/conf:/spark/a.jar:/spark/a.jar", "-Xmx1g", "Main"])
    '-cp "/spark/conf:/spark/a.jar"\\n'
    """
    entries: dict[str, None] = {}
    for entry in command[command.index("-cp") + 1].split(os.pathsep):
        if entry.endswith("/*"):
            # As the command `java` does: jars alone, in the order of the folder.
            names = [name for name in os.listdir(entry[:-2]) if name.lower().endswith(".jar")]
            entries.update(dict.fromkeys(entry[:-1] + name for name in names))
        else:
            entries[entry] = None
    escaped = os.pathsep.join(entries).replace("\\", "\\\\").replace('"', '\\"')
    return f'-cp "{escaped}"\n'


def _environ(jvm: SparkJvm) -> dict[str, str]:
    """Return the environment of the queries: no options of this process's own JVM, and no gateway to one."""
    beginnings = ("PYSPARK_", "_PYSPARK_", "SPARK_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(beginnings)}
    return {**environ, **dict(jvm.environ), "SPARK_HOME": str(jvm.home), "SPARK_LOCAL_IP": "127.0.0.1"}


def _take_spare_time() -> None:
    """Have this process, and those that it starts, run only while no other wants a processor."""
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


_OWN = ("SharedArchiveFile", "ArchiveClassesAtExit", "AutoCreateSharedArchive", "-Xshare", "AOTCache", "AOTMode")
"""Options by which users show that they have an archive of their own."""
_EXTRA = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")


def archive_options(
    folder: Path | None, java: Java | None, config: Mapping[str, str], home: Path | None, environ: Mapping[str, str]
) -> str:
    """Return the options by which Spark's JVM starts from its archive; empty where it has none, or must not.

    ``java`` is None if the JVM runs already. Where ``folder`` has no archive for it, a process that outlives this one
    makes it.
    """
    own = (environ.get(OPTIONS, ""), *(config.get(key, "") for key in _EXTRA))
    if folder is None or java is None or any(option in text for text in own for option in _OWN):
        return ""
    jvm = jvm_of(java, config, home, environ)
    archive = find_archive(folder, jvm)
    if isinstance(archive, Archive):
        return use_options(jvm, archive)
    if may_make_itself(folder, jvm, environ):
        atexit.register(begin_making, folder, jvm)
    if jvm.without_jars != jvm:
        archive = find_archive(folder, jvm.without_jars)
    return use_options(jvm, archive) if isinstance(archive, Archive) else ""


def jvm_of(java: Java, config: Mapping[str, str], home: Path | None, environ: Mapping[str, str]) -> SparkJvm:
    """Return the JVM that starts with ``config``; ``home`` is another Spark distribution than that of pyspark."""
    # pyspark looks for Spark's launcher there, too.
    given = home or (Path(environ["SPARK_HOME"]) if environ.get("SPARK_HOME") else None)
    return SparkJvm.of(java, distribution(given), config, environ)


_MAKE = "`rivet-dagster spark archive` makes it, or says why it cannot."


def examine_archive(
    subject: str,
    folder: Path | None,
    java: Java,
    config: Mapping[str, str],
    home: Path | None,
    environ: Mapping[str, str],
) -> Finding:
    """Return the finding about the archive in ``folder`` for the JVM that starts with ``config``."""
    if folder is None:
        return in_order(subject, "Spark starts without an archive of classes: these are turned off")
    jvm = jvm_of(java, config, home, environ)
    archive = find_archive(folder, jvm)
    if isinstance(archive, Archive):
        return in_order(
            subject, f"Spark starts from an archive of classes, {archive.size / 1e6:.0f} MB: {folder / jvm.key}"
        )
    without = "Spark starts slowly, without an archive of classes"
    if jvm.obstacle is not None:
        return in_order(subject, f"{without}: {jvm.obstacle}")
    if archive.damaged:
        return doubtful(subject, f"{without}: {archive.reason}", _MAKE)
    if may_make_itself(folder, jvm, environ):
        return in_order(subject, f"{without}; the next run makes one in {folder}")
    log = log_of(folder, jvm)
    if log.exists():
        return doubtful(subject, f"{without}: it could not be made, see {log}", _MAKE)
    return in_order(subject, f"{without}; `rivet-dagster spark archive` makes one")
