"""A second process that computes values of the cache where a large project is compiled without one."""
