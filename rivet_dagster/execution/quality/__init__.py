"""How a run judges rows by checks, and the results of the checks."""
