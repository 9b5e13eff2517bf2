"""The command ``import``."""
