"""The Spark Connect server of a project, which an engine with ``remote: local`` starts when it is needed.

starting.py      find the running server, or start one
supervisor.py    the process that starts Spark's JVM, records it, and ends it when nobody uses it
record.py        what is known of a running server, in a file that only its owner can read
files.py         the files of a server, and the two locks: one to start it, one held by each process that uses it
identity.py      whether a process is the one that was recorded
command.py       the command and the settings that it starts with
stopping.py      ending it
own_server.py    these together, as the engine and the command line use them
"""
