"""Commands of resources: lists of them, and requests about one."""
