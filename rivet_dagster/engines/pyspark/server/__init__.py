"""The server of a project, which an engine with ``remote: local`` or ``remote: sail`` starts when it is needed.

starting.py      find the running server, or start one
kinds.py         what differs between Spark Connect and Sail: check, command, token
supervisor.py    the process that starts the server, records it, and ends it when nobody uses it
record.py        what is known of a running server, in a file that only its owner can read, and ending it
files.py         the files of a server, and the two locks: one to start it, one held by each process that uses it
ports.py         ports of this machine, and the processes that listen on them
command.py       the command and the settings of Spark Connect, and the order that a supervisor gets
connecting.py    sessions on the server
"""
