"""The declarations of a dbt project as files of joints."""
