"""The component by which ``dg`` loads a project."""
