"""A small shop: two sources, joints in two groups and folders, a Python joint between them, a sink."""

from __future__ import annotations

from support.folders import Files, sink, source

SHOP: Files = {
    "sources/orders.yaml": source(
        "orders.csv", "id BIGINT, customer BIGINT, amount DOUBLE", tags={"layer": "raw"}, group="raw"
    ),
    "sources/customers.yaml": source(
        "customers.csv",
        "id BIGINT, name STRING",
        group="raw",
        quality={"assertions": [{"type": "not_null", "columns": ["id"]}]},
    ),
    "joints/staging/paid.sql": (
        "-- rivet:tags: {layer: staged}\n-- rivet:group: staging\n"
        "SELECT id, customer, amount FROM orders WHERE amount > 0\n"
    ),
    "joints/staging/scored.py": ("# rivet:group: staging\n\n\ndef transform(paid):\n    return paid.to_arrow()\n"),
    "joints/marts/named.sql": (
        "-- rivet:tags: [fresh]\n-- rivet:group: marts\n"
        "SELECT s.id, s.amount, c.name FROM scored AS s JOIN customers AS c ON c.id = s.customer\n"
    ),
    "joints/marts/large.sql": (
        "-- rivet:tags: [fresh, layer]\n-- rivet:group: marts\n-- rivet:assert: not_null(id)\n"
        "SELECT * FROM named WHERE amount > 10\n"
    ),
    "sinks/large_table.yaml": sink("large", "large", group="marts"),
    "data/orders.csv": "id,customer,amount\n1,1,5\n2,2,50\n3,1,70\n4,1,-1\n",
    "data/customers.csv": "id,name\n1,Ann\n2,Bo\n",
}
"""Its groups: paid (with orders), scored, large (with named and customers), large_table."""
