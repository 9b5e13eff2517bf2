"""What each write strategy makes of a batch and the target before it: queries over the relations of those names."""
