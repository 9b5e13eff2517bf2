"""Tables of files that a project reads: files, directories, globs and landing zones."""
