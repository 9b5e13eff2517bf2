"""The command line: parse the arguments, call the package, render the result."""
