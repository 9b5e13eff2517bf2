from dataclasses import dataclass, field


@dataclass(frozen=True)
class Layout:
    partitioned_by: tuple | None = None
    sort_order: tuple | None = None
    properties: dict = field(default_factory=dict)


def parse_layout(options):
    return Layout()


def wrong_layout(options):
    return ()


def spec_of(layout, schema, base, last):
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

    return base or UNPARTITIONED_PARTITION_SPEC


def order_of(layout, schema, base):
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

    return base or UNSORTED_SORT_ORDER


def layout_updates(layout, metadata):
    return ()


def table_properties(layout):
    return {}
