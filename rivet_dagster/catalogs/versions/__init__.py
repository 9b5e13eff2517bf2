"""The life of a version, whatever stores it: its facts, its heartbeat, its mark, its sweep, and its refusals."""
