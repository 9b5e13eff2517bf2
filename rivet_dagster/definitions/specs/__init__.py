"""The Dagster specs of joints and checks, the translator that makes them, and metadata of assets."""
