"""A second process that does half of the work where a large project is compiled without a cache.

Both read files, then both analyze the joints, each the next portion of what is left; what the helper computes are
values of the cache, as they stand in its file. It never changes the result: a value that it does not return is computed
where it is needed.
"""
