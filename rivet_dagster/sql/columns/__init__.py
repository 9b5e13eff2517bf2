"""The columns of a query: their names, types and origins, and those that do not exist."""
