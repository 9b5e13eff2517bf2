"""PostgreSQL: connections, columns, snapshots, and how rows are shared out."""
