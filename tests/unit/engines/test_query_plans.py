"""Query plans that a server of Spark is asked for while it writes."""

import threading
from types import SimpleNamespace

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.engines.pyspark.results import plan_requested


def test_the_plan_is_that_of_a_view_of_the_frame():
    views, queries = [], []

    def sql(query):
        queries.append(query)
        return SimpleNamespace(collect=lambda: [("== Physical Plan ==\nRange (0, 3)\n\n",)])

    wait = plan_requested(SimpleNamespace(sql=sql), SimpleNamespace(createTempView=views.append))
    assert wait() == QueryPlan("== Physical Plan ==\nRange (0, 3)")
    assert queries == [f"EXPLAIN FORMATTED SELECT * FROM {name}" for name in views]


def test_an_error_is_raised_where_the_plan_is_waited_for():
    def refuse(name):
        raise ValueError("the session is closed")

    wait, raised = plan_requested(None, SimpleNamespace(createTempView=refuse)), []

    def ask():
        try:
            wait()
        except ValueError as error:
            raised.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(20)
    assert raised == ["the session is closed"]
