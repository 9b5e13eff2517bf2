"""Whole processes: the six TPC-H joints of ``fusion`` in rivet_dagster, by hand, and in its peers.

Each run is a fresh process in a fresh folder, timed from its start to its end: imports, the start of Spark, the query,
the bookkeeping of the tool. The contenders take turns. Each has an environment of its own, made at the first call, and
the same Spark, settings, source files and queries. Before anything is timed, and after each run, its answer must be
that of DuckDB. A contender that cannot be installed or run is left out, and a line says why.

The figures are printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import duckdb
from fusion_tpch import BY_HAND_FLAT, PROJECT, TABLES, make_data, rows
from measuring import Measured, Spread, markdown, quartiles, ratios, take_turns
from one_session import load
from peer_contenders import CONTENDERS, HAND, Contender
from peer_environments import JAVA, MASTER, PEERS, Environment, Missing, last_error, prepare
from whole_processes import adopt_orphans, cpu_of_children, wait_for_group

METASTORE = "metastore_db"

Runs = Sequence[Measured[None]]


class Failed(Exception):
    """A contender whose command fails or gives a wrong answer."""


def main() -> None:
    options = arguments()
    data = PROJECT / "data" / f"sf{options.scale:g}"
    make_data(data, options.scale)
    adopt_orphans()
    results = PEERS / "results"
    results.mkdir(exist_ok=True)
    print(conditions(options))
    environments = prepared({CONTENDERS[name].environment for name in options.only})
    with tempfile.TemporaryDirectory(prefix="run-", dir=results) as scratch:
        arena = Arena(data, Path(scratch), environments)
        able = arena.try_out(options.only)
        measured = take_turns(
            {name: partial(arena.run, CONTENDERS[name]) for name in able},
            options.rounds,
            warm_ups=0,  # they have been tried out
            scratch=arena.scratch,
            between=lambda: None,
            cpu_seconds=cpu_of_children,
        )
    # A turn also lays out the folder and compares the answer; the time of the command is what it returns.
    runs = {name: [turn.result for turn in turns] for name, turns in measured.items()}
    print(f"- load average afterwards: {load()}\n")
    print(report(runs))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor (default 1: 300 MB of Parquet)")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default 5)")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=CONTENDERS,
        default=[],
        metavar="NAME",
        help=f"these beside the query by hand: {', '.join(CONTENDERS)}",
    )
    options = parser.parse_args()
    options.only = [name for name in CONTENDERS if name == HAND or not options.only or name in options.only]
    return options


def prepared(names: set[str]) -> dict[str, Environment]:
    """Return the environments of these names that can be made, and print a line for each."""
    found = {}
    for name in sorted(names):
        try:
            found[name] = prepare(name)
            print(f"- {name}: {found[name].versions}")
        except Missing as error:
            print(f"- {name} cannot be installed: {error}")
    return found


@dataclass(frozen=True)
class Arena:
    """What the runs share: the source files, a folder for theirs, and the environments."""

    data: Path
    scratch: Path
    environments: Mapping[str, Environment]

    def try_out(self, names: Sequence[str]) -> list[str]:
        """Run each once; print which give DuckDB's answer and which are left out, and return the former."""
        able = []
        for name in names:
            try:
                self.run(CONTENDERS[name], self.scratch / name)
                able.append(name)
            except Failed as error:
                print(f"- {name} is left out: {error}")
            shutil.rmtree(self.scratch / name, ignore_errors=True)
        print(f"- same {len(self.expected)} rows: {', '.join([*able, 'DuckDB'])}", flush=True)
        return able

    @cached_property
    def expected(self) -> list[tuple[Any, ...]]:
        """The rows that DuckDB gives."""
        with duckdb.connect() as connection:
            for name in TABLES:
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{self.data / name}.parquet')")
            return sorted(connection.execute(BY_HAND_FLAT).fetchall())

    def run(self, contender: Contender, folder: Path) -> Measured[None]:
        """Run it in a new folder, and time the command alone. Raise Failed."""
        if contender.environment not in self.environments:
            raise Failed("no environment")
        environment = self.environments[contender.environment]
        self.lay_out(contender.project, folder)
        contender.lay_out(folder)
        if contender.metastore:
            shutil.copytree(self.metastore(environment), folder / METASTORE)
        try:
            for command in contender.before:
                self.timed(command, environment, folder, contender.variables)
            measured = self.timed(contender.command, environment, folder, contender.variables)
        finally:
            for command in contender.after:
                self.timed(command, environment, folder, contender.variables)
        found = [rows(answer) for answer in folder.glob(contender.answer)]
        if found != [self.expected]:
            raise Failed(f"gives other rows than DuckDB: {found}")
        return measured

    def lay_out(self, project: str, folder: Path) -> None:
        """Copy a folder of ``peers``, and put the source files beside it."""
        shutil.copytree(PEERS / project, folder)
        (folder / "data").symlink_to(self.data)

    def metastore(self, environment: Environment) -> Path:
        """Return the folder of an environment's metastore, which is made at the first call."""
        home = self.scratch / f"metastore-{environment.folder.name}"
        if not home.exists():
            self.lay_out("metastore", home)
            self.timed(("python", "run.py"), environment, home, {})
        return home / METASTORE

    def timed(
        self, command: Sequence[str], environment: Environment, folder: Path, variables: Mapping[str, str]
    ) -> Measured[None]:
        """Run a command in a folder until it has ended. Raise Failed with its last error."""
        environ = {key: value for key, value in {**environment.variables, **variables}.items() if value}
        log = folder / "output.log"
        with log.open("w") as printed:
            cpu, started = cpu_of_children(), time.perf_counter()
            process = subprocess.Popen(
                [environment.program(command[0]), *command[1:]],
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait()
            except BaseException:  # Ctrl-C does not reach another session
                os.killpg(process.pid, signal.SIGKILL)
                raise
            seconds = time.perf_counter() - started
        wait_for_group(process.pid)
        if code:
            raise Failed(f"exit code {code}: {last_error(log.read_text(errors='replace'))}")
        return Measured(seconds, cpu_of_children() - cpu, None)


def conditions(options: argparse.Namespace) -> str:
    return (
        f"- TPC-H scale {options.scale:g}, {options.rounds} rounds; {MASTER}, driver memory 2g, without Spark's UI\n"
        f"- Java {JAVA.major}, Python {platform.python_version()}, {os.cpu_count()} cores\n"
        f"- load average before: {load()}"
    )


def report(runs: Mapping[str, Runs]) -> str:
    """The figures as Markdown."""
    header = ("whole process", "seconds: median (min..max)", "CPU seconds", "ratio to by hand: median (quartiles)")
    return markdown(header, [row(CONTENDERS[name].title, found, runs[HAND]) for name, found in runs.items()])


def row(title: str, found: Runs, hand: Runs) -> Sequence[str]:
    first, median, third = quartiles(ratios(found, hand))
    cpu = Spread.of(run.cpu_seconds for run in found)
    ratio = "" if found is hand else f"{median} ({first}..{third})"
    return title, str(Spread.of(run.seconds for run in found)), f"{cpu.median:.1f}", ratio


if __name__ == "__main__":
    main()
