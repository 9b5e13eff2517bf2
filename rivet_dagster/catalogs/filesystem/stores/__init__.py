"""Object stores and HDFS: their URIs and options, and their files as sources."""
