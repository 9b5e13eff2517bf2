"""Row errors: which rows a query cannot evaluate, and the queries that separate them from the others.

To be read in this order:

- What can fail. ``site`` says what a place that can fail is made of. ``conditions`` finds them, by ``calls`` (Spark's
  names of sqlglot's nodes), ``functions`` with its rules in ``faults`` and ``parameters``, ``casts``, ``arithmetic``,
  ``strings`` (casts that nobody wrote), ``aggregates`` and ``laziness``; ``reasons`` joins several of one place.
- Where it stands. ``code``, ``clauses`` and ``expression_text`` keep the author's text; ``sites`` walks an expression
  and tells where Spark comes to evaluate a place, ``constants`` those that Spark computes when it plans.
- What is asked instead. ``separation`` walks the query, ``select`` the parts of one SELECT with ``projection_errors``,
  ``join_errors`` and ``aggregation_errors``, which edit the author's text through ``select_rewrite`` and ``raising``;
  ``overflows`` are those of sums and averages, ``keys`` find the key of a row. ``error_query`` tells the errors of
  failing rows. ``row_by_row`` asks chains of such queries in one pass.
- ``refusal`` is raised where rows that fail could not be separated; RVT-330 tells it.

`compiler.row_errors` does this for the joints of a group, `execution.writing.row_errors` writes what is found.
"""
