"""The 22 queries of TPC-H with their validation parameters: each as joints, and as one hand-written query.

Both are in SQL that is the same for Spark and DuckDB; dates are precomputed, since intervals differ.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMAS = {
    "customer": """
        c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey BIGINT, c_phone STRING, c_acctbal
        DECIMAL(15,2), c_mktsegment STRING, c_comment STRING""",
    "lineitem": """
        l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15,2),
        l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING,
        l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING,
        l_shipmode STRING, l_comment STRING""",
    "nation": """
        n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT, n_comment STRING""",
    "orders": """
        o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(15,2), o_orderdate
        DATE, o_orderpriority STRING, o_clerk STRING, o_shippriority INT, o_comment STRING""",
    "part": """
        p_partkey BIGINT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT,
        p_container STRING, p_retailprice DECIMAL(15,2), p_comment STRING""",
    "partsupp": """
        ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15,2), ps_comment
        STRING""",
    "region": """
        r_regionkey BIGINT, r_name STRING, r_comment STRING""",
    "supplier": """
        s_suppkey BIGINT, s_name STRING, s_address STRING, s_nationkey BIGINT, s_phone STRING, s_acctbal
        DECIMAL(15,2), s_comment STRING""",
}
"""The columns of the tables, as DDL."""

TABLES = tuple(SCHEMAS)


@dataclass(frozen=True)
class TpchQuery:
    """``joints`` by name, the last of them the result; ``plain`` is all of it in one query."""

    joints: dict[str, str]
    plain: str

    @property
    def result(self) -> str:
        """Return the joint with the result."""
        return list(self.joints)[-1]


NET = "l_extendedprice * (1 - l_discount)"

QUERIES: dict[int, TpchQuery] = {
    1: TpchQuery(
        {
            "shipped": "SELECT * FROM lineitem WHERE l_shipdate <= DATE '1998-09-02'",
            "priced": f"SELECT *, {NET} AS net FROM shipped -- without tax",
            "pricing": """
                SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
                    sum(net) AS sum_disc_price, sum(net * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty,
                    avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order
                FROM priced GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus;""",
        },
        f"""
            SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
                sum({NET}) AS sum_disc_price, sum({NET} * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty,
                avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order
            FROM lineitem WHERE l_shipdate <= DATE '1998-09-02'
            GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    ),
    2: TpchQuery(
        {
            "european": """
                SELECT supplier.*, n_name FROM supplier, nation, region
                WHERE s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'""",
            "offers": """
                SELECT ps_partkey, ps_supplycost, european.*
                FROM partsupp, european WHERE ps_suppkey = s_suppkey""",
            "cheapest": """
                SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment FROM part, offers
                WHERE p_partkey = ps_partkey AND p_size = 15 AND p_type LIKE '%BRASS'
                    AND ps_supplycost = (SELECT min(o.ps_supplycost) FROM offers o WHERE o.ps_partkey = p_partkey)
                ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100""",
        },
        """
            SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
            FROM part, partsupp, supplier, nation, region
            WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS'
                AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
                AND ps_supplycost = (
                    SELECT min(ps_supplycost) FROM partsupp, supplier, nation, region
                    WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey
                        AND n_regionkey = r_regionkey AND r_name = 'EUROPE')
            ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100""",
    ),
    3: TpchQuery(
        {
            "building": "SELECT c_custkey FROM customer WHERE c_mktsegment = 'BUILDING'",
            "waiting": """
                SELECT o_orderkey, o_orderdate, o_shippriority FROM building, orders
                WHERE c_custkey = o_custkey AND o_orderdate < DATE '1995-03-15'""",
            "unshipped": f"""
                SELECT l_orderkey, sum({NET}) AS revenue, o_orderdate, o_shippriority FROM waiting, lineitem
                WHERE l_orderkey = o_orderkey AND l_shipdate > DATE '1995-03-15'
                GROUP BY l_orderkey, o_orderdate, o_shippriority""",
            "largest": "SELECT * FROM unshipped ORDER BY revenue DESC, o_orderdate LIMIT 10",
        },
        f"""
            SELECT l_orderkey, sum({NET}) AS revenue, o_orderdate, o_shippriority FROM customer, orders, lineitem
            WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
                AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
            GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10""",
    ),
    4: TpchQuery(
        {
            "late": "SELECT * FROM lineitem WHERE l_commitdate < l_receiptdate",
            "quarter": """
                SELECT *
                FROM orders WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'""",
            "priorities": """
                SELECT o_orderpriority, count(*) AS order_count FROM quarter
                WHERE EXISTS (SELECT * FROM late WHERE l_orderkey = o_orderkey)
                GROUP BY o_orderpriority ORDER BY o_orderpriority""",
        },
        """
            SELECT o_orderpriority, count(*) AS order_count FROM orders
            WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
                AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
            GROUP BY o_orderpriority ORDER BY o_orderpriority""",
    ),
    5: TpchQuery(
        {
            "asian": """
                SELECT n_nationkey, n_name
                FROM nation, region WHERE n_regionkey = r_regionkey AND r_name = 'ASIA'""",
            "year": "SELECT * FROM orders WHERE o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'",
            "local_sales": """
                SELECT n_name, l_extendedprice, l_discount FROM customer, year, lineitem, supplier, asian
                WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
                    AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey""",
            "volume": f"SELECT n_name, sum({NET}) AS revenue FROM local_sales GROUP BY n_name ORDER BY revenue DESC",
        },
        f"""
            SELECT n_name, sum({NET}) AS revenue FROM customer, orders, lineitem, supplier, nation, region
            WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
                AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
                AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
            GROUP BY n_name ORDER BY revenue DESC""",
    ),
    6: TpchQuery(
        {
            "year": "SELECT * FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'",
            "small": "SELECT * FROM year WHERE l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
            "forecast": "SELECT sum(l_extendedprice * l_discount) AS revenue FROM small",
        },
        """
            SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
            WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
                AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    ),
    7: TpchQuery(
        {
            "shipping": f"""
                SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, extract(year FROM l_shipdate) AS l_year,
                    {NET} AS volume
                FROM supplier, lineitem, orders, customer, nation n1, nation n2
                WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
                    AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
                    AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'""",
            "between_two": """
                SELECT * FROM shipping WHERE (supp_nation = 'FRANCE' AND cust_nation = 'GERMANY')
                    OR (supp_nation = 'GERMANY' AND cust_nation = 'FRANCE')""",
            "trade": """
                SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue FROM between_two
                GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year""",
        },
        f"""
            SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue FROM (
                SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, extract(year FROM l_shipdate) AS l_year,
                    {NET} AS volume
                FROM supplier, lineitem, orders, customer, nation n1, nation n2
                WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
                    AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
                    AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY')
                        OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
                    AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
            GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year""",
    ),
    8: TpchQuery(
        {
            "american": """
                SELECT n_nationkey FROM nation, region WHERE n_regionkey = r_regionkey AND r_name = 'AMERICA'""",
            "all_nations": f"""
                SELECT extract(year FROM o_orderdate) AS o_year, {NET} AS volume, n2.n_name AS nation
                FROM part, supplier, lineitem, orders, customer, american n1, nation n2
                WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey
                    AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey AND s_nationkey = n2.n_nationkey
                    AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
                    AND p_type = 'ECONOMY ANODIZED STEEL'""",
            "share": """
                SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) AS mkt_share
                FROM all_nations GROUP BY o_year ORDER BY o_year""",
        },
        f"""
            SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) AS mkt_share FROM (
                SELECT extract(year FROM o_orderdate) AS o_year, {NET} AS volume, n2.n_name AS nation
                FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
                WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey
                    AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey
                    AND r_name = 'AMERICA' AND s_nationkey = n2.n_nationkey
                    AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
                    AND p_type = 'ECONOMY ANODIZED STEEL') AS all_nations
            GROUP BY o_year ORDER BY o_year""",
    ),
    9: TpchQuery(
        {
            "green": "SELECT p_partkey FROM part WHERE p_name LIKE '%green%'",
            "profits": f"""
                SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,
                    {NET} - ps_supplycost * l_quantity AS amount
                FROM green, supplier, lineitem, partsupp, orders, nation
                WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
                    AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey""",
            "by_nation": """
                SELECT nation, o_year, sum(amount) AS sum_profit FROM profits
                GROUP BY nation, o_year ORDER BY nation, o_year DESC""",
        },
        f"""
            SELECT nation, o_year, sum(amount) AS sum_profit FROM (
                SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,
                    {NET} - ps_supplycost * l_quantity AS amount
                FROM part, supplier, lineitem, partsupp, orders, nation
                WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
                    AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey
                    AND p_name LIKE '%green%') AS profit
            GROUP BY nation, o_year ORDER BY nation, o_year DESC""",
    ),
    10: TpchQuery(
        {
            "quarter": """
                SELECT *
                FROM orders WHERE o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01'""",
            "returned": "SELECT * FROM lineitem WHERE l_returnflag = 'R'",
            "lost": f"""
                SELECT c_custkey, c_name, sum({NET}) AS revenue, c_acctbal, n_name, c_address, c_phone, c_comment
                FROM customer, quarter, returned, nation
                WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND c_nationkey = n_nationkey
                GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment""",
            "most": "SELECT * FROM lost ORDER BY revenue DESC LIMIT 20",
        },
        f"""
            SELECT c_custkey, c_name, sum({NET}) AS revenue, c_acctbal, n_name, c_address, c_phone, c_comment
            FROM customer, orders, lineitem, nation
            WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'
                AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' AND c_nationkey = n_nationkey
            GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
            ORDER BY revenue DESC LIMIT 20""",
    ),
    11: TpchQuery(
        {
            "german": """
                SELECT ps_partkey, ps_supplycost * ps_availqty AS worth FROM partsupp, supplier, nation
                WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'""",
            "important": """
                SELECT ps_partkey, sum(worth) AS value FROM german GROUP BY ps_partkey
                HAVING sum(worth) > (SELECT sum(worth) * 0.01 FROM german) ORDER BY value DESC""",
        },
        """
            SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation
            WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
            GROUP BY ps_partkey HAVING sum(ps_supplycost * ps_availqty) > (
                SELECT sum(ps_supplycost * ps_availqty) * 0.01 FROM partsupp, supplier, nation
                WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY')
            ORDER BY value DESC""",
    ),
    12: TpchQuery(
        {
            "by_mail_or_ship": "SELECT * FROM lineitem WHERE l_shipmode IN ('MAIL', 'SHIP')",
            "late": """
                SELECT * FROM by_mail_or_ship WHERE l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
                    AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'""",
            "modes": """
                SELECT l_shipmode,
                    sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS high_line_count,
                    sum(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS low_line_count
                FROM orders, late WHERE o_orderkey = l_orderkey GROUP BY l_shipmode ORDER BY l_shipmode""",
        },
        """
            SELECT l_shipmode,
                sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS high_line_count,
                sum(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS low_line_count
            FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
                AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
                AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'
            GROUP BY l_shipmode ORDER BY l_shipmode""",
    ),
    13: TpchQuery(
        {
            "ordinary": "SELECT * FROM orders WHERE o_comment NOT LIKE '%special%requests%'",
            "per_customer": """
                SELECT c_custkey, count(o_orderkey) AS c_count
                FROM customer LEFT OUTER JOIN ordinary ON c_custkey = o_custkey GROUP BY c_custkey""",
            "distribution": """
                SELECT c_count, count(*) AS custdist FROM per_customer GROUP BY c_count
                ORDER BY custdist DESC, c_count DESC""",
        },
        """
            SELECT c_count, count(*) AS custdist FROM (
                SELECT c_custkey, count(o_orderkey) AS c_count FROM customer LEFT OUTER JOIN orders
                    ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey) AS c_orders
            GROUP BY c_count ORDER BY custdist DESC, c_count DESC""",
    ),
    14: TpchQuery(
        {
            "month": "SELECT * FROM lineitem WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'",
            "sold": f"SELECT p_type, {NET} AS net FROM month, part WHERE l_partkey = p_partkey",
            "effect": """
                SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN net ELSE 0 END) / sum(net) AS promo_revenue
                FROM sold""",
        },
        f"""
            SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN {NET} ELSE 0 END) / sum({NET}) AS promo_revenue
            FROM lineitem, part
            WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'""",
    ),
    15: TpchQuery(
        {
            "quarter": """
                SELECT *
                FROM lineitem WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01'""",
            "revenue": f"SELECT l_suppkey AS supplier_no, sum({NET}) AS total_revenue FROM quarter GROUP BY l_suppkey",
            "top": """
                SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
                WHERE s_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue)
                ORDER BY s_suppkey""",
        },
        f"""
            WITH revenue AS (
                SELECT l_suppkey AS supplier_no, sum({NET}) AS total_revenue FROM lineitem
                WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01' GROUP BY l_suppkey)
            SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
            WHERE s_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue)
            ORDER BY s_suppkey""",
    ),
    16: TpchQuery(
        {
            "complained": "SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%'",
            "wanted": """
                SELECT * FROM part WHERE p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
                    AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)""",
            "suppliers": """
                SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, wanted
                WHERE p_partkey = ps_partkey AND ps_suppkey NOT IN (SELECT s_suppkey FROM complained)
                GROUP BY p_brand, p_type, p_size ORDER BY supplier_cnt DESC, p_brand, p_type, p_size""",
        },
        """
            SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part
            WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
                AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
                AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
            GROUP BY p_brand, p_type, p_size ORDER BY supplier_cnt DESC, p_brand, p_type, p_size""",
    ),
    17: TpchQuery(
        {
            "boxes": "SELECT * FROM part WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX'",
            "usual": "SELECT l_partkey AS k, 0.2 * avg(l_quantity) AS few FROM lineitem GROUP BY l_partkey",
            "lost": """
                SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, boxes, usual
                WHERE p_partkey = l_partkey AND k = p_partkey AND l_quantity < few""",
        },
        """
            SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
            WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
                AND l_quantity < (SELECT 0.2 * avg(l.l_quantity) FROM lineitem l WHERE l.l_partkey = p_partkey)""",
    ),
    18: TpchQuery(
        {
            "large": "SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300",
            "large_orders": "SELECT * FROM orders WHERE o_orderkey IN (SELECT l_orderkey FROM large)",
            "buyers": """
                SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
                FROM customer, large_orders, lineitem WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey
                GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
                ORDER BY o_totalprice DESC, o_orderdate LIMIT 100""",
        },
        """
            SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
            FROM customer, orders, lineitem
            WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
                AND c_custkey = o_custkey AND o_orderkey = l_orderkey
            GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
            ORDER BY o_totalprice DESC, o_orderdate LIMIT 100""",
    ),
    19: TpchQuery(
        {
            "by_air": """
                SELECT * FROM lineitem
                WHERE l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON'""",
            "sold": "SELECT * FROM by_air, part WHERE p_partkey = l_partkey",
            "discounted": f"""
                SELECT sum({NET}) AS revenue FROM sold
                WHERE (p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
                        AND l_quantity BETWEEN 1 AND 11 AND p_size BETWEEN 1 AND 5)
                    OR (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
                        AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10)
                    OR (p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
                        AND l_quantity BETWEEN 20 AND 30 AND p_size BETWEEN 1 AND 15)""",
        },
        f"""
            SELECT sum({NET}) AS revenue FROM lineitem, part
            WHERE p_partkey = l_partkey AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON'
                AND ((p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
                        AND l_quantity BETWEEN 1 AND 11 AND p_size BETWEEN 1 AND 5)
                    OR (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
                        AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10)
                    OR (p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
                        AND l_quantity BETWEEN 20 AND 30 AND p_size BETWEEN 1 AND 15))""",
    ),
    20: TpchQuery(
        {
            "forest": "SELECT p_partkey FROM part WHERE p_name LIKE 'forest%'",
            "shipped": """
                SELECT *
                FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'""",
            "excess": """
                SELECT ps_suppkey FROM partsupp WHERE ps_partkey IN (SELECT p_partkey FROM forest)
                    AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM shipped
                        WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey)""",
            "promoted": """
                SELECT s_name, s_address FROM supplier, nation WHERE s_suppkey IN (SELECT ps_suppkey FROM excess)
                    AND s_nationkey = n_nationkey AND n_name = 'CANADA' ORDER BY s_name""",
        },
        """
            SELECT s_name, s_address FROM supplier, nation
            WHERE s_suppkey IN (
                    SELECT ps_suppkey FROM partsupp
                    WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
                        AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem
                            WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
                                AND l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'))
                AND s_nationkey = n_nationkey AND n_name = 'CANADA'
            ORDER BY s_name""",
    ),
    21: TpchQuery(
        {
            "late": "SELECT * FROM lineitem WHERE l_receiptdate > l_commitdate",
            "blamed": """
                SELECT * FROM late l1
                WHERE EXISTS (
                        SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
                    AND NOT EXISTS (
                        SELECT * FROM late l3 WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey)""",
            "waiting": """
                SELECT s_name, count(*) AS numwait FROM supplier, blamed, orders, nation
                WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND o_orderstatus = 'F'
                    AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA'
                GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100""",
        },
        """
            SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation
            WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
                AND l1.l_receiptdate > l1.l_commitdate
                AND EXISTS (
                    SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
                AND NOT EXISTS (
                    SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
                        AND l3.l_receiptdate > l3.l_commitdate)
                AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA'
            GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100""",
    ),
    22: TpchQuery(
        {
            "candidates": """
                SELECT substring(c_phone, 1, 2) AS cntrycode, c_acctbal, c_custkey FROM customer
                WHERE substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')""",
            "idle": """
                SELECT * FROM candidates
                WHERE c_acctbal > (SELECT avg(c_acctbal) FROM candidates WHERE c_acctbal > 0.00)
                    AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)""",
            "opportunity": """
                SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal FROM idle
                GROUP BY cntrycode ORDER BY cntrycode""",
        },
        """
            SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal FROM (
                SELECT substring(c_phone, 1, 2) AS cntrycode, c_acctbal FROM customer
                WHERE substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
                    AND c_acctbal > (
                        SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00
                            AND substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17'))
                    AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
            GROUP BY cntrycode ORDER BY cntrycode""",
    ),
}
