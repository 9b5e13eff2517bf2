"""Environments on Nessie: branches of the server."""
