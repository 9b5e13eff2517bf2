"""Tables that are published in a database, whatever its kind: staged beside, judged there, in one transaction."""
