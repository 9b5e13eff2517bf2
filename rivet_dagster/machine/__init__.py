"""The machine that a run is on: the space of its disks, and whether it reaches servers. For the doctor."""
