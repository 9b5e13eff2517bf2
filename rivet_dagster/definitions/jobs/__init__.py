"""Jobs, and the targets of jobs, schedules and sensors."""
