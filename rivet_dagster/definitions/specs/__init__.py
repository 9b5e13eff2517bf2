"""How joints and checks look in Dagster before they ever ran."""
