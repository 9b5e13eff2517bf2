"""Sail, a server of Spark Connect without a JVM: its process, what its sessions do otherwise, and what is refused."""
