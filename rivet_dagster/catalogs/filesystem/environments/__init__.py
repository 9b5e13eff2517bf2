"""Environments of the catalog: folders of shadow versions, laid out like a catalog's folder."""
