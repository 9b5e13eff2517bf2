"""The difference of an environment from its base: of logic, columns, rows and verdicts of checks."""
