"""Reading a text of SQL: its tokens, its tree, its parameters, and what follows from them for the whole query."""
