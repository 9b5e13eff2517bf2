"""How a run reads: handles on inputs, rendered queries, watermarks, and the new files of landing zones."""
