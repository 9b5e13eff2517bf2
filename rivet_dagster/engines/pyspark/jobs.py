"""Tagging, watching and cancelling what a session runs, on an application of this process and over Spark Connect."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from rivet_dagster.engines.pyspark.stages import See, heard, polled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Jobs(Protocol):
    """The running work of one session."""

    def begin(self, *tags: str) -> None:
        """Tag all that the calling thread runs from now on."""

    def cancel(self, tag: str) -> None:
        """Stop all that runs under ``tag``."""

    def watch(self, tag: str, see: See) -> AbstractContextManager[None]:
        """Tell ``see`` every second or two, until the block ends, of the stages of what runs under ``tag``."""


class ClassicJobs:
    """Spark jobs of this process's application."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def begin(self, *tags: str) -> None:
        """Tag the jobs of the calling thread, and let a cancel interrupt tasks that wait."""
        for tag in tags:
            self._context.addJobTag(tag)
        self._context.setInterruptOnCancel(True)

    def cancel(self, tag: str) -> None:
        """Cancel the jobs under ``tag`` that run now."""
        self._context.cancelJobsWithTag(tag)

    def watch(self, tag: str, see: See) -> AbstractContextManager[None]:
        """Ask for the stages of the jobs under ``tag``."""
        return polled(self._context, tag, see)


class ConnectJobs:
    """Operations on a Spark Connect server."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def begin(self, *tags: str) -> None:
        """Tag the operations of the calling thread."""
        for tag in tags:
            self._spark.addTag(tag)

    def cancel(self, tag: str) -> None:
        """Interrupt the operations under ``tag`` that run now."""
        self._spark.interruptTag(tag)

    def watch(self, tag: str, see: See) -> AbstractContextManager[None]:
        """Hear of all that the session runs: the server does not say under which tag, and it does one thing a time."""
        return heard(self._spark, see)


def is_connect(spark: Any) -> bool:
    """Whether a session or frame is one of Spark Connect."""
    return ".connect." in type(spark).__module__


def jobs_of(spark: SparkSession) -> Jobs:
    """The running work of ``spark``."""
    return ConnectJobs(spark) if is_connect(spark) else ClassicJobs(spark)
