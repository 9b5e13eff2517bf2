"""The writing of a new version, on a branch of the table or in a staging table, and its publication."""
