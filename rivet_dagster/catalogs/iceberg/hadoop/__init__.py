"""A catalog without a server: tables are folders, and a file says which metadata is current."""
