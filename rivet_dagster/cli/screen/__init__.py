"""Output on stderr during a run: its waves, groups, checks and progress."""
