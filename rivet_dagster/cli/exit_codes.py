"""The exit codes of what is no RivetError, each of which has its own."""

FAILURE = 1
"""A defect, or output that nobody reads."""
INTERRUPTED = 130
"""Ctrl-C: 128 and the signal's number, as shells have it."""
