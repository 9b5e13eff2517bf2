"""All use of sqlglot: what a query reads and returns, and the SQL that fuses queries into one."""
