"""The versions of a table: published snapshots, and those that are withheld or being built."""
