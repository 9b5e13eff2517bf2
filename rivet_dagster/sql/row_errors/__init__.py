"""Row errors: what may raise for a row, and the queries that separate errors from rows."""
