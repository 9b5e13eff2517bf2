"""Facts that a step reads from its run and from the event log, and the failures that it reports."""
