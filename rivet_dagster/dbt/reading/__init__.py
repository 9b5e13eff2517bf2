"""The files of a dbt project, as declarations."""
