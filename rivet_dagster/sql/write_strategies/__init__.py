"""The queries of each write strategy, over the relations of the batch and the target."""
