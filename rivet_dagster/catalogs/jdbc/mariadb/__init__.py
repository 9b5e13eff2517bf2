"""MariaDB: connections, columns, locks while tables are read, and how rows are copied."""
