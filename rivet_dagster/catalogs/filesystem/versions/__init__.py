"""The versions of a published table: their layout on disk, and their life until they are removed."""
