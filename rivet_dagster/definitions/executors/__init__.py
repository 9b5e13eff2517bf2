"""Executors of runs: in threads of one process, or in a process for each step."""
