"""PostgreSQL's SQL: what of it Spark reads, and computes, alike."""
