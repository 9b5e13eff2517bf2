"""PostgreSQL: connections, columns, snapshots, how rows are shared out and copied, and environments."""
