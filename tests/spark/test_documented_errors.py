"""The project of docs/errors.md, whose tables hold what the page says."""

import json
import re
from copy import deepcopy
from pathlib import Path

import pytest
from support.folders import PROFILES, ProjectFolder
from support.spark import WITH_CODE

PAGE = (Path(__file__).parents[2] / "docs/errors.md").read_text()
NAMED = dict(re.findall(r"```\w+\n(?:#|--) (\S+/\S+)\n(.*?)```", PAGE, re.DOTALL))
(SITE,) = map(json.loads, re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
BAD = "3,cyd,n/a,2,2026-01-06\n4,ann,45.50,1,yesterday\n"
CORRECTED = "3,cyd,90.00,2,2026-01-06\n4,ann,45.50,1,2026-01-07\n"
SHOWN = ("joint", "code", "expression", "line", "row", "key")


def table(header: str) -> list[list[str]]:
    """Return the rows of the page's table with this header."""
    lines = PAGE.partition(f"| {header} |\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture
def shop(project) -> ProjectFolder:
    """Return the page's project; its warehouse is the catalog ``lake`` of these tests; Spark compiles its queries."""
    profiles = deepcopy(PROFILES)
    profiles["default"]["engines"][0]["config"] |= WITH_CODE
    sink = "sinks/monthly_rates.yaml"
    return project(
        {**NAMED, "profiles.yaml": profiles, sink: NAMED[sink].replace("catalog: warehouse", "catalog: lake")}
    )


@pytest.mark.nightly
def test_the_tables_hold_what_the_page_says(shop):
    (result,) = shop.run_all().values()
    rows = shop.rows("monthly_rates")
    shown = [["" if value is None else str(value) for value in row.values()] for row in rows]
    assert sorted(shown) == sorted(table("id | customer | rate | paid_on"))
    errors = [[str(error[name]) for name in SHOWN] for error in shop.rows("monthly_rates__errors")]
    assert sorted(errors) == sorted(table(" | ".join(SHOWN)))
    assert result.errors is not None
    (site,) = [site for site in result.errors.sites if site.condition == SITE["condition"]]
    assert (site.expression, site.line, site.count) == (SITE["expression"], SITE["line"], SITE["count"])
    assert SITE["message"].endswith(f": {site.message}")


@pytest.mark.nightly
def test_corrected_rows_retract_their_errors(shop):
    shop.run_all()
    data = shop.root / "data/payments.csv"
    text = data.read_text()
    assert BAD in text
    data.write_text(text.replace(BAD, CORRECTED))
    shop.run_all()
    assert sorted(row["id"] for row in shop.rows("monthly_rates")) == [1, 3, 4, 5]
    assert [error["key"] for error in shop.rows("monthly_rates__errors")] == ['{"id":2}']
