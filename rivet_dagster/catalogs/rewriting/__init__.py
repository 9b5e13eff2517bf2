"""Write plans carried out by writing a table's next version anew: for storage that has no MERGE of its own.

A catalog opts in by giving its transaction's parts as a ``RewritableVersion``; nothing outside of ``catalogs`` knows
whether it does.
"""
