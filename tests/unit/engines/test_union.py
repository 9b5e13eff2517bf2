"""The union of many frames of Spark."""

from __future__ import annotations

from dataclasses import dataclass

from rivet_dagster.engines.pyspark.session import union_of


@dataclass(frozen=True)
class Union:
    """A frame, and how deep a plan Spark's analyzer goes through for it."""

    names: tuple[str, ...]
    depth: int = 1

    def unionByName(self, other: Union) -> Union:
        return Union(self.names + other.names, max(self.depth, other.depth) + 1)


def test_unions_are_not_nested_as_deep_as_there_are_frames():
    for count, depth in ((1, 1), (3, 3), (1000, 11)):
        frames = [Union((str(number),)) for number in range(count)]
        assert union_of(frames) == Union(tuple(map(str, range(count))), depth)
