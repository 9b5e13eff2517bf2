"""What a step reads from its run and the event log, and how it reports failures."""
