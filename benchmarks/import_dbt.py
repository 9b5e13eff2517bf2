"""How long the import of a dbt project takes, and the moved project against `dbt build`.

    python benchmarks/import_dbt.py [--models 1000] [--rounds 3]
    python benchmarks/import_dbt.py --dbt VENV [--rounds 3]

The second one needs a virtual environment with dbt-core, dbt-spark and pyspark. It compares whole processes: `dbt
build` in session mode, and `rivet-dagster run` of the imported project, each on folders without anything in them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from measuring import Measured, Spread, ratios, take_turns
from whole_processes import adopt_orphans, cpu_of_children, wait_for_group

PROJECT = "name: bench\nversion: '1.0'\nprofile: bench\nmodels:\n  bench:\n    marts: {+materialized: table}\n"
PROFILE = "bench: {target: dev, outputs: {dev: {type: spark, method: session, schema: bench, host: NA, threads: 1}}}\n"
CHECKED = "  - name: customer\n    data_tests: [unique, not_null]\n"
MACRO = "{% macro cents(column) %}cast(round({{ column }} * 100) as bigint){% endmacro %}\n"
STAGING = """
with orders as (select * from {{{{ ref('raw_orders') }}}})
select id, customer, {{{{ cents('amount') }}}} + {n} as cents, day from orders where id % {parts} = {rest}
"""
MART = """
{{{{ config(tags=['mart']) }}}}
select
    o.customer,
    {{% for part in ['a', 'b'] %}}sum(o.cents) as cents_{{{{ part }}}},{{% endfor %}}
    count(*) as orders
from {{{{ ref('stg_{n}') }}}} o
left join {{{{ ref('{other}') }}}} c on c.{key} = o.customer
group by o.customer
"""


def write(folder: Path, models: int, rows: int) -> None:
    """Write a project of half as many views, with a check each, and half as many tables that read these and others."""
    files = {"dbt_project.yml": PROJECT, "profiles.yml": PROFILE, "macros/cents.sql": MACRO}
    seed = "".join(f"{n},{n % 10},{n / 4},2024-01-{n % 28 + 1:02}\n" for n in range(rows))
    files["seeds/raw_orders.csv"] = f"id,customer,amount,day\n{seed}"
    files["seeds/customers.csv"] = "id,name\n" + "".join(f"{n},name {n}\n" for n in range(10))
    described = []
    for n in range(models // 2):
        files[f"models/staging/part_{n % 20}/stg_{n}.sql"] = STAGING.format(n=n, parts=7, rest=n % 7)
        other, key = ("customers", "id") if n % 10 == 0 else (f"mart_{n - 1}", "customer")
        files[f"models/marts/part_{n % 20}/mart_{n}.sql"] = MART.format(n=n, other=other, key=key)
        described.append(f"- name: mart_{n}\n  description: Orders {n}.\n  columns:\n{CHECKED}")
    files["models/models.yml"] = "models:\n" + "".join(described)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def timed(command: list[object], folder: Path) -> Measured[None]:
    """Return the elapsed and the processor time, the JVM's too, of a command that must succeed."""
    cpu, begun = cpu_of_children(), time.perf_counter()
    with (folder / "output.log").open("w") as log:
        process = subprocess.Popen(
            list(map(str, command)), cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        code = process.wait()
    elapsed = time.perf_counter() - begun
    wait_for_group(process.pid)
    if code:
        raise SystemExit((folder / "output.log").read_text()[-3000:])
    return Measured(elapsed, cpu_of_children() - cpu, None)


def ours(*arguments: object) -> list[object]:
    """Return a command line of this Python's rivet-dagster."""
    return [sys.executable, "-m", "rivet_dagster.cli.process", *arguments]


def importing(folder: Path, models: int, rounds: int) -> None:
    """Print how long an import takes as a whole process."""
    write(folder / "dbt", models, 10)
    taken = []
    for n in range(rounds):
        taken.append(timed(ours("import", "dbt", folder / "dbt", "--to", folder / f"new_{n}"), folder))
    for name, values in (
        ("elapsed", [run.seconds for run in taken]),
        ("processor", [run.cpu_seconds for run in taken]),
    ):
        spread = Spread.of(values)
        print(f"import of {models} models, {name}: {spread.median:.2f} s ({spread.least:.2f} to {spread.most:.2f})")


def against_dbt(folder: Path, venv: Path, models: int, rounds: int) -> None:
    """Print the time of a moved project's run as a part of that of `dbt build`."""
    write(folder / "dbt", models, 200)
    timed(ours("import", "dbt", folder / "dbt", "--to", folder / "new"), folder)

    def contender(name: str, command: list[object]) -> Callable[[Path], Measured[None]]:
        def run(place: Path) -> Measured[None]:
            shutil.copytree(folder / name, place)
            measured = timed(command, place)
            print(f"{name} {measured.seconds:.1f} s ({measured.cpu_seconds:.1f} s of processors)", flush=True)
            return measured

        return run

    contenders = {
        "dbt": contender("dbt", [venv / "bin" / "dbt", "build", "--profiles-dir", "."]),
        "new": contender("new", ours("-p", ".", "run")),
    }
    scratch = folder / "scratch"
    scratch.mkdir()
    runs = take_turns(contenders, rounds, 0, scratch, between=lambda: None, cpu_seconds=cpu_of_children)
    moved, dbt = ([run.result for run in runs[name]] for name in ("new", "dbt"))
    print(f"ratio, elapsed: {Spread.of(ratios(moved, dbt))}")
    print(f"ratio, processor: {Spread.of(a.cpu_seconds / b.cpu_seconds for a, b in zip(moved, dbt, strict=True))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dbt", type=Path, metavar="VENV")
    given = parser.parse_args()
    os.environ.pop("DAGSTER_HOME", None)
    adopt_orphans()
    with tempfile.TemporaryDirectory() as place:
        if given.dbt is not None:
            against_dbt(Path(place), given.dbt.absolute(), given.models or 20, given.rounds)
        else:
            importing(Path(place), given.models or 1000, given.rounds)
