"""What starts runs by itself when something has happened: one kind of sensor a file."""
