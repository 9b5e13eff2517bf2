"""The only home of sqlglot: what a query reads and promises, and the text that fuses queries into one."""
