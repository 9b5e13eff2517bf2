"""How a run reads: inputs as handles on rows, the text that it asks, watermarks, and the files of landing zones."""
