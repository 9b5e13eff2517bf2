"""JSON Schemas of the files of a project, by which an editor completes and checks them while one types."""
