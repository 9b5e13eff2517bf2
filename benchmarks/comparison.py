"""A comparison of contenders that take turns in one Spark session: its options, its runs, and its report."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from measuring import Measured, Spread, markdown, mean_ratio, quartiles, ratios, take_turns
from one_session import cpu_seconds, load

Pair = tuple[str, str]
"""The names of two contenders of which the first is compared with the second."""

Runs = Mapping[str, Sequence[Measured[Any]]]
"""The timed runs of each contender, round by round."""


def arguments(description: str, rounds: int) -> argparse.Namespace:
    """The options of the command line; ``rounds`` is the default of the timed ones."""
    return parser_of(description, rounds).parse_args()


def parser_of(description: str, rounds: int, rows: int = 5_000_000) -> argparse.ArgumentParser:
    """The parser of these options, ``rows`` being the default of the rows."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=rows, help=f"rows of each table (default {rows:,})")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"timed rounds (default {rounds})")
    parser.add_argument("--warm-ups", type=int, default=2, help="rounds before them that are not timed (default 2)")
    return parser


def heading(spark: Any, options: argparse.Namespace) -> str:
    """What is measured, and on what."""
    return (
        f"- {options.rows:,} rows, {options.rounds} rounds after {options.warm_ups} to warm up\n"
        f"- Spark {spark.version} on {spark.sparkContext.master}, "
        f"Java {spark._jvm.System.getProperty('java.version')}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores\n- load average before: {load()}"
    )


def compare(
    spark: Any, options: argparse.Namespace, scratch: Path, contenders: Mapping[str, Callable[[Path], Any]]
) -> Runs:
    """Have the contenders take turns, the garbage of each collected before the next one begins."""
    return take_turns(
        contenders,
        options.rounds,
        warm_ups=options.warm_ups,
        scratch=scratch,
        between=spark._jvm.System.gc,
        cpu_seconds=partial(cpu_seconds, spark),
    )


def report(runs: Runs, pairs: Iterable[Pair], goals: Mapping[Pair, float], *further: str) -> str:
    """The figures as Markdown: times, ratios of ``pairs``, ``further`` tables, and whether ``goals`` are met.

    A goal is what the first of a pair may take, as a multiple of the second.
    """
    times = [
        (name, str(Spread.of(run.seconds for run in found)), f"{statistics.median(r.cpu_seconds for r in found):.2f}")
        for name, found in runs.items()
    ]
    found = {pair: ratios(runs[pair[0]], runs[pair[1]]) for pair in pairs}
    compared = [(" / ".join(pair), *quartiles(values), mean_ratio(values)) for pair, values in found.items()]
    return "\n\n".join(
        [
            markdown(("run", "seconds: median (min..max)", "CPU seconds"), times),
            markdown(("ratio, pair by pair", "first quartile", "median", "third quartile", "mean"), compared),
            *further,
            "\n".join(verdict(pair, found[pair], most) for pair, most in goals.items()),
        ]
    )


def verdict(pair: Pair, found: Sequence[float], most: float) -> str:
    """Whether the median ratio is within the goal, and how many of the rounds are."""
    word = "met" if statistics.median(found) <= most else "missed"
    within = sum(ratio <= most for ratio in found)
    return f"- goal {word}: {pair[0]} takes at most {most} x {pair[1]}; so do {within} of {len(found)} pairs"
