"""Seeds of declared types: Spark reads from the file what it casts the texts of the old one to, as dbt does."""

from rivet_dagster.dbt.translation.seeds import read_seed

TEXTS = """1| 5 |+5|-5|5.0|5.9|.5|5.|-.5|.|-|+|1e3|1E3|1,000|$5|0x10|1_000|99999999999|1d|1f|1L|NaN|nan|inf|-inf
1.005|1.015|-1.005|123456789.1|12345678901.1|1e-3|0.000|-0|-0.0|00012|5%|true|TRUE|t|y|yes|Yes|0|n|no|f|False|on|abc|Infinity
2024|2024-1|2024-01-5|2024-1-5|2024-01-31|2024-02-30|20240131|2024/01/31|2024-01-31 10:11:12|2024-01-31T10:11:12Z|1e400
2024-01-31T10:11:12+02:00|2024-01-31 10:11:12.123456789|2024-01-31 1:2:3|2024-01-31 10:11|12024-01-31|2024-01-31x|128
2024-01-31 x| 2024-01-31 |now|2024-01-31 10:11:12 Europe/Berlin|2024-01-31 24:00:00|2024-13-01|2147483648|1 000|32768
9223372036854775808|-9223372036854775808|null|NULL|x,y|a"b|a\\b""".replace("\n", "|").split("|")
TYPES = ["tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(5,0)", "boolean"]
TYPES += ["date", "timestamp", "timestamp_ntz", "string"]


def test_declared_types_are_those_of_a_cast(quick_session, tmp_path):
    spark = quick_session.spark
    spark.conf.set("spark.sql.ansi.enabled", "false")  # as dbt-spark has it
    texts = [(n, text if text.lower() != "null" else None) for n, text in enumerate(TEXTS)]
    casts = [f"cast(cast(s as {kind}) as string)" for kind in TYPES]
    expected = spark.createDataFrame(texts, "n int, s string").selectExpr("n", *casts).collect()

    quoted = ['"' + text.replace('"', '""') + '"' for text in TEXTS]
    columns = [f"c{position}" for position in range(len(TYPES))]
    rows = "".join(f"{n},{','.join([text] * len(TYPES))}\n" for n, text in enumerate(quoted))
    seed = read_seed(f"n,{','.join(columns)}\n{rows}", declared=dict(zip(columns, TYPES, strict=True)))
    file = tmp_path / "seed.csv"
    file.write_text(seed.text)
    read = spark.read.options(header=True, **seed.options).schema(seed.schema).csv(str(file))
    shown = read.selectExpr("n", *(f"cast({column} as string)" for column in columns))
    given = {row[0]: tuple(row)[1:] for row in shown.collect()}
    for n, *values in expected:
        assert list(zip(TYPES, given[n], strict=True)) == list(zip(TYPES, values, strict=True)), TEXTS[n]
