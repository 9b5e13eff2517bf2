"""What the commands take: their options, arguments and examples. What they do is imported when they are called."""
