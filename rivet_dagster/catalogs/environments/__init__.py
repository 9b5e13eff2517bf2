"""Environments, for every kind of storage: their states, how they are merged, and the methods of their catalogs."""
