"""Clean-up after runs: archiving files, evicting tables, sweeping the leftovers of dead runs, upkeep."""
