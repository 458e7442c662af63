"""Drivers of Spark programs on a launcher's machine: how one ends with its Python, and drivers that are prepared."""
