"""Row errors: which rows a query cannot evaluate, and the queries that separate them from the others.

To be read in this order:

- What can fail. A ``site`` is one operator or call that can. ``site_rules`` says of a node whether it is one, by
  ``operator_sites`` (casts and arithmetic), ``function_calls`` (Spark's names of sqlglot's nodes), ``function_sites``
  with its ``function_reasons``, ``implicit_casts`` (which nobody wrote) and ``aggregates``.
- Where it stands. ``token_ranges`` and ``select_clauses`` keep the author's text; ``fallible`` walks an expression and
  says where Spark comes to evaluate a site.
- What is asked instead. ``separation`` walks the query; ``filter_and_projection_errors``, ``join_errors`` and
  ``aggregation_errors`` edit the author's text through ``select_rewrite``, with the conditions of ``raising``.
  ``error_query`` returns the errors of failing rows. ``row_by_row`` asks chains of such queries in one pass.

`compiler.row_errors` does this for the joints of a group, `execution.writing.row_errors` writes what is found.
"""
