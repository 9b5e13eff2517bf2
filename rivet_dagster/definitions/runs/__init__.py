"""What a step reads from its run and from the event log, and how it reports failures."""
