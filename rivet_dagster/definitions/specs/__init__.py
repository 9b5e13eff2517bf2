"""The Dagster specs of joints and checks, and the translator that makes them."""
