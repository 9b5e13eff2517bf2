"""What a session of Spark leaves behind when it is closed."""

from unittest.mock import MagicMock

import pytest

from rivet_dagster.engines.pyspark.session import PySparkSession


@pytest.mark.parametrize(("keeps_views", "dropped"), [(True, ["orders", "items"]), (False, [])])
def test_views_are_dropped_where_they_outlive_the_session(keeps_views, dropped):
    adapter = MagicMock(is_stopped=False, keeps_views=keeps_views)
    session = PySparkSession(MagicMock(**{"new_session.return_value": adapter}), {})
    for name in ("items", "orders"):
        session.register(name, MagicMock())
    session.close()
    session.close()
    assert [call.args[0] for call in adapter.spark.catalog.dropTempView.call_args_list] == dropped
    adapter.close.assert_called_once_with()
