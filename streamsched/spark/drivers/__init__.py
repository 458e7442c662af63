"""Drivers of Spark programs on a launcher's machine: how one ends with its Python, and which may be a prepared one."""
