"""Timing contenders in turn, so that a busy minute of the machine falls on all of them."""

from __future__ import annotations

import math
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Measured(Generic[T]):
    """One run: its time, what it cost in processor seconds, and what it returned."""

    seconds: float
    cpu_seconds: float
    result: T


@dataclass(frozen=True)
class Spread:
    """The median of some values, and the least and the greatest of them."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """The spread of at least one value."""
        found = list(values)
        return cls(statistics.median(found), min(found), max(found))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f}..{self.most:.2f})"


def take_turns(
    contenders: Mapping[str, Callable[[Path], T]],
    rounds: int,
    warm_ups: int,
    scratch: Path,
    between: Callable[[], None],
    cpu_seconds: Callable[[], float],
) -> dict[str, list[Measured[T]]]:
    """Every contender once a round; the runs of the first ``warm_ups`` rounds are not kept.

    Each gets a path of its own below ``scratch`` to write to, which is removed afterwards; that and ``between``, which
    comes before each run, are not timed. The order is shuffled each round, the same in every call, so that nobody
    always follows the same neighbour.
    """
    order = random.Random(0)
    runs: dict[str, list[Measured[T]]] = {name: [] for name in contenders}
    for number in range(warm_ups + rounds):
        for name in order.sample(list(contenders), len(contenders)):
            folder = scratch / name
            between()
            cpu, started = cpu_seconds(), time.perf_counter()
            result = contenders[name](folder)
            measured = Measured(time.perf_counter() - started, cpu_seconds() - cpu, result)
            shutil.rmtree(folder, ignore_errors=True)
            if number >= warm_ups:
                runs[name].append(measured)
    return runs


def pairwise(
    one: Sequence[Measured[T]], other: Sequence[Measured[T]], compare: Callable[[float, float], float]
) -> Spread:
    """The spread of what ``compare`` says of the two times of each round."""
    return Spread.of(compare(a.seconds, b.seconds) for a, b in zip(one, other, strict=True))


def ratios(one: Sequence[Measured[T]], other: Sequence[Measured[T]]) -> list[float]:
    """How many times as long the one took, round by round."""
    return [a.seconds / b.seconds for a, b in zip(one, other, strict=True)]


def quartiles(values: Iterable[float]) -> list[str]:
    """The first quartile, the median and the third; of one value this value."""
    found = list(values)
    of_all = statistics.quantiles(found, n=4, method="inclusive") if len(found) > 1 else found * 3
    return [f"{value:.3f}" for value in of_all]


def mean_ratio(found: Sequence[float]) -> str:
    """The mean by their logarithms, with its standard error: what tells a few percent from noise."""
    logarithms = [math.log(ratio) for ratio in found]
    error = statistics.stdev(logarithms) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    average = math.exp(statistics.fmean(logarithms))
    return f"{average:.3f} +- {average * error:.3f}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that reads well as it is and renders as Markdown; all columns but the first stand to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    rule = ["-" * width if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    aligned = [str.ljust] + [str.rjust] * (len(header) - 1)
    return "\n".join(
        "| " + " | ".join(align(cell, width) for align, cell, width in zip(aligned, row, widths, strict=True)) + " |"
        for row in (header, rule, *rows)
    )
