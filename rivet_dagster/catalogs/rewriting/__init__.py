"""Rewrites: write plans carried out by writing a new version of the table, for storage without a MERGE of its own.

A catalog opts in by implementing ``RewritableVersion``; whether it does is not visible outside of ``catalogs``.
"""
