"""Declarations of the commands: options, arguments and examples. What they do is imported when they are called."""
