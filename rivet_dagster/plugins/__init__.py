"""What packages with catalogs, engines or kinds of checks of their own import: one module for each of the three.

Other modules of rivet_dagster may change with any release; names of these are deprecated for a release before they go.
"""
