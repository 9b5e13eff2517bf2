"""Data files and their folders: whether they exist, what their footers hold, and how they are written and shared."""
