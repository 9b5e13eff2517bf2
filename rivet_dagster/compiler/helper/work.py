"""The helper's own process: it reads its share on stdin and writes values of the cache to stdout."""

from __future__ import annotations

import gc
import json
import sys

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.helper.share import read_request
from rivet_dagster.compiler.references import build_graph
from rivet_dagster.compiler.schemas import infer_columns
from rivet_dagster.model.introspection import Introspection
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.project import Project
from rivet_dagster.project.cache_file import part


def main() -> None:
    """Compute the values, and write them as a part of a cache file."""
    gc.disable()
    cache = CompileCache()
    compute(*read_request(json.load(sys.stdin.buffer)), cache)
    sys.stdout.buffer.write(part(cache.added))


def compute(joints: tuple[Joint, ...], introspection: Introspection, cache: CompileCache) -> None:
    """Put the facts of the joints' queries and their columns into the cache; errors are left to the compiler."""
    diagnostics = Diagnostics()
    graph = build_graph(Project(Profile("", (), (), None), joints), diagnostics, cache)
    if not diagnostics.errors:
        infer_columns(graph, diagnostics, cache, introspection)
