"""Reading of dbt projects, and their translation into projects of joints. dbt itself is not needed."""
