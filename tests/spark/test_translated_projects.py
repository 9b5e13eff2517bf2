"""Random projects have the same rows on DuckDB, Sail and Spark, or are refused; ``--examples`` is their number."""

import pytest
from support.sail import sail_session
from support.torture import examples
from support.translated_projects import ENGINES, Comparison, random_projects

FEW, HUNDREDS, ALL = 6, 300, 10_000
BATCH = 50
"""How many projects one seed makes."""


def compare(engine, number: int) -> None:
    session = engine.session()
    with sail_session() as remote:
        comparison = Comparison(session.spark.newSession(), remote)
        tally = comparison.tally
        start = 0
        while tally.projects < number and not tally.wrong:
            comparison.compare(random_projects(min(BATCH, number - tally.projects), start))
            start += 1
            print(f"seeds before {start}: {tally}", flush=True)
    session.close()
    assert not tally.wrong, "\n\n".join(tally.wrong[:3])
    assert tally.joints["alike on duckdb"] > 0 < tally.joints["alike on sail"]
    assert tally.joints["a defect of Spark"] <= 0.01 * sum(tally.joints.values())
    assert tally.joints["cannot be planned on sail"] <= 0.01 * sum(tally.joints.values())
    # Few projects may have the same construct in most.
    least = 0.8 if number >= HUNDREDS else 0.5
    for name in ENGINES:
        assert tally.whole[name] >= least * tally.projects, tally


def test_random_projects_have_the_same_rows_or_are_refused(engine, pytestconfig: pytest.Config) -> None:
    compare(engine, pytestconfig.getoption("--examples") or examples(FEW, ALL))


@pytest.mark.nightly
def test_hundreds_of_random_projects_have_the_same_rows_or_are_refused(engine) -> None:
    compare(engine, HUNDREDS)
