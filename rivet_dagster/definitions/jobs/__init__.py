"""Jobs, and the assets that they, schedules and sensors select."""
