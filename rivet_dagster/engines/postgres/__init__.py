"""The engine ``postgres``: queries in a database of PostgreSQL. Importing this imports no psycopg."""

from rivet_dagster.engines.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
