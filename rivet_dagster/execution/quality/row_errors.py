"""The check `evaluation_errors`: the rows that a quarantining run could not evaluate, against the declared limit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, zip_longest
from operator import itemgetter
from typing import Any

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.targets import HasErrorTables
from rivet_dagster.compiler.joints import CompiledJoint
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.execution.results import CheckResult, RowErrorCounts, SiteErrors
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.check_plan import ByErrors, CompiledCheck
from rivet_dagster.model.row_errors import ErrorTable
from rivet_dagster.model.storage import Published

SAMPLES = 10
"""The maximum number of samples of a site."""


def is_errors_check(check: CompiledCheck) -> bool:
    """Return whether a check judges row errors, so that no query of its own counts its violations."""
    return isinstance(check.queries.counting, ByErrors)


def errors_result(
    joint: CompiledJoint, check: CompiledCheck, errors: RowErrorCounts, rows: int, seconds: float = 0.0
) -> CheckResult:
    """Return the result of the check for ``errors`` of a run beside ``rows`` good rows.

    With ``max_errors`` it passes within the limit, whatever their number. A check without samples shows no values of
    rows at all.
    """
    counting = check.queries.counting
    limit = counting.max_errors if isinstance(counting, ByErrors) else None
    passed = errors.count == 0 if limit is None else limit.allows(errors.count, rows)
    samples = tuple(islice(_samples(errors.sites), check.samples))
    judged = errors if check.samples else errors.without_values()
    return CheckResult(joint.name, check, passed, errors.count, check.queries.shown, seconds, samples, errors=judged)


def judge_errors(joint: CompiledJoint, errors: RowErrorCounts | None, rows: int) -> tuple[CheckResult, ...]:
    """Return the results of the joint's checks of ``errors``, those of a run beside ``rows`` good rows."""
    if errors is None:
        return ()
    return tuple(errors_result(joint, check, errors, rows) for check in joint.checks if is_errors_check(check))


def published_result(
    runtime: Runtime,
    joint: CompiledJoint,
    check: CompiledCheck,
    published: Published,
    table: ErrorTable,
    session: EngineSession,
) -> CheckResult:
    """Return the result of the check for a published version: that of the run that published it.

    Errors of earlier versions that still hold do not count, as they did not in that run. Raises RVT-401.
    """
    started = time.perf_counter()
    errors = published_errors(runtime, published, table, session)
    rows = published.record.inserted + published.record.updated
    return errors_result(joint, check, errors, rows, time.perf_counter() - started)


def published_errors(
    runtime: Runtime, published: Published, table: ErrorTable, session: EngineSession
) -> RowErrorCounts:
    """Return the errors that were published with a version; none if it has no error table. Raises RVT-401."""
    catalog = capable(runtime.catalog(published.catalog), HasErrorTables)
    relation = catalog.errors_of(published)
    if relation is None:
        return RowErrorCounts(table.table, 0, 0)
    return counted_errors(session, session.load(relation), table.table, published.version)


def counted_errors(
    session: EngineSession, errors: Frame, table: str, version: str, total: int | None = None
) -> RowErrorCounts:
    """Return the errors of an error table, those of ``version`` by site.

    ``total`` is the number of rows of the table, where it is known.
    """
    with session.views():
        session.register(_VIEW, errors)
        if total is None:
            total = int(session.rows(_TOTAL)[0]["errors"])
        if not total:
            return RowErrorCounts(table, 0, 0)
        sites = _sites_of_few(session, version) if total <= _FEW else _sites_of_many(session, version)
    return RowErrorCounts(table, sum(site.count for site in sites), total, sites)


def _sites_of_few(session: EngineSession, version: str) -> tuple[SiteErrors, ...]:
    rows = session.rows(_OF_FEW, {"version": version, "samples": SAMPLES})
    by_site = (list(records) for _, records in groupby(rows, key=itemgetter(*_SITE)))
    return tuple(_site(records[0]["errors"], records) for records in by_site)


def _sites_of_many(session: EngineSession, version: str) -> tuple[SiteErrors, ...]:
    counts = session.rows(_COUNTS, {"version": version})
    by_site = _sampled(session, version, _some_of_many(counts)) if counts else {}
    if len(by_site) < len(counts):
        by_site = _sampled(session, version)
    return tuple(_site(row["errors"], by_site[itemgetter(*_SITE)(row)]) for row in counts)


def _sampled(session: EngineSession, version: str, condition: str = "true") -> dict[Any, list[Any]]:
    """Return the samples of each site, by its columns, among the errors for which ``condition`` is true."""
    rows = session.rows(_SAMPLES.format(condition=condition), {"version": version, "samples": SAMPLES})
    return {site: list(group) for site, group in groupby(rows, key=itemgetter(*_SITE))}


def _some_of_many(counts: Sequence[Mapping[str, Any]]) -> str:
    """Return a condition that leaves some errors of sites of many, since errors are sorted for samples."""
    many = {row["hash"]: row["errors"] for row in counts if row["errors"] > _MANY}
    if not many:
        return "true"
    others = f"xxhash64({_OF_SITE}) NOT IN ({', '.join(map(str, many))})"
    return f"(pmod(xxhash64(`row`), {min(many.values()) // _SORTED}) = 0 OR {others})"


def _samples(sites: Iterable[SiteErrors]) -> Iterator[Mapping[str, Any]]:
    """Yield one sample of each site in turn, so that no site hides another."""
    for samples in zip_longest(*([(site, row) for row in site.samples] for site in sites)):
        for site, row in filter(None, samples):
            location = f"{site.file}:{site.line}" if site.file and site.line else site.file or ""
            yield {
                "condition": site.condition,
                "joint": site.joint,
                "place": location,
                "expression": site.expression,
                "row": json.dumps(row, default=str, ensure_ascii=False),
            }


def _site(count: int, records: Sequence[Mapping[str, Any]]) -> SiteErrors:
    first = records[0]
    return SiteErrors(
        condition=first["code"],
        joint=first["joint"],
        file=first["file"],
        line=first["line"],
        expression=first["expression"],
        count=int(count),
        message=first["message"] or "",
        samples=tuple(_row(record["row"]) for record in records),
    )


def _row(text: str | None) -> Mapping[str, Any]:
    """Return a row from its JSON; as one text where it is none, as a record that could not be parsed may be."""
    try:
        row = json.loads(text or "{}")
    except ValueError:
        row = text
    return row if isinstance(row, dict) else {"row": text}


_VIEW = "rivet_published_errors"
_SITE = ("joint", "code", "file", "line", "expression")
_OF_SITE = "`joint`, `code`, `file`, `line`, `expression`"
_FEW = 10_000
"""As many errors are counted by one query in one task, which takes less time than two whose tasks pass them on."""
_MANY, _SORTED = 100_000, 1_000
"""Samples of sites with more errors than the first are taken from a part of them, the second for the least of these."""
_TOTAL = f"SELECT COUNT(*) AS `errors` FROM `{_VIEW}`"
_OF_FEW = f"""
SELECT {_OF_SITE}, `message`, `row`, `errors` FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY {_OF_SITE} ORDER BY `row`) AS `number`,
    COUNT(*) OVER (PARTITION BY {_OF_SITE}) AS `errors`
  FROM (SELECT /*+ COALESCE(1) */ * FROM `{_VIEW}` WHERE `version` = :version)
) WHERE `number` <= :samples
ORDER BY `errors` DESC, {_OF_SITE}, `number`
""".strip()
_COUNTS = f"""
SELECT {_OF_SITE}, xxhash64({_OF_SITE}) AS `hash`, COUNT(*) AS `errors`
FROM `{_VIEW}` WHERE `version` = :version
GROUP BY {_OF_SITE} ORDER BY `errors` DESC, {_OF_SITE}
""".strip()
# A window with nothing but a row number is cut by Spark in each task, before the rows of a site come together in one.
_SAMPLES = f"""
SELECT {_OF_SITE}, `message`, `row` FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY {_OF_SITE} ORDER BY `row`) AS `number`
  FROM `{_VIEW}` WHERE `version` = :version AND {{condition}}
) WHERE `number` <= :samples
ORDER BY {_OF_SITE}, `number`
""".strip()
