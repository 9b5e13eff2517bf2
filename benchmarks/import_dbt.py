"""How long the import of a dbt project takes, and the moved project against `dbt build`.

    python benchmarks/import_dbt.py [--models 1000] [--rounds 3]
    python benchmarks/import_dbt.py --dbt VENV [--rounds 3]

The second one needs a virtual environment with dbt-core, dbt-spark and pyspark. It compares whole processes: `dbt
build` in session mode, and `rivet-dagster run` of the imported project, each on folders without anything in them.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import Spread

PROJECT = "name: bench\nversion: '1'\nprofile: bench\nmodels:\n  bench:\n    marts: {+materialized: table}\n"
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


def timed(command: list[object], folder: Path) -> tuple[float, float]:
    """Return the elapsed and the processor time of a command that must succeed."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    elapsed, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(*arguments: object) -> list[object]:
    """Return a command line of this Python's rivet-dagster."""
    return [sys.executable, "-m", "rivet_dagster.cli.main", *arguments]


def importing(folder: Path, models: int, rounds: int) -> None:
    """Print how long an import takes as a whole process."""
    write(folder / "dbt", models, 10)
    taken = []
    for n in range(rounds):
        taken.append(timed(ours("import", "dbt", folder / "dbt", "--to", folder / f"new_{n}"), folder))
    for name, values in (("elapsed", [e for e, _ in taken]), ("processor", [c for _, c in taken])):
        spread = Spread.of(values)
        print(f"import of {models} models, {name}: {spread.median:.2f} s ({spread.least:.2f} to {spread.most:.2f})")


def against_dbt(folder: Path, venv: Path, models: int, rounds: int) -> None:
    """Print the time of a moved project's run as a part of that of `dbt build`."""
    write(folder / "dbt", models, 200)
    timed(ours("import", "dbt", folder / "dbt", "--to", folder / "new"), folder)
    ratios, costs = [], []
    for n in range(rounds):
        for name in ("dbt", "new"):
            shutil.copytree(folder / name, folder / f"{name}_{n}")
        dbt = timed([venv / "bin" / "dbt", "build", "--profiles-dir", "."], folder / f"dbt_{n}")
        moved = timed(ours("-p", ".", "run"), folder / f"new_{n}")
        ratios.append(moved[0] / dbt[0])
        costs.append(moved[1] / dbt[1])
        print(f"dbt build {dbt[0]:.1f} s ({dbt[1]:.1f} s of processors), run {moved[0]:.1f} s ({moved[1]:.1f} s)")
    for name, values in (("elapsed", ratios), ("processor", costs)):
        spread = Spread.of(values)
        print(f"ratio, {name}: {spread.median:.2f} ({spread.least:.2f} to {spread.most:.2f})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dbt", type=Path, metavar="VENV")
    given = parser.parse_args()
    os.environ.pop("DAGSTER_HOME", None)
    with tempfile.TemporaryDirectory() as place:
        if given.dbt is not None:
            against_dbt(Path(place), given.dbt.absolute(), given.models or 20, given.rounds)
        else:
            importing(Path(place), given.models or 1000, given.rounds)
