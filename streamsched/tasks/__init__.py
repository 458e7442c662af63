"""Owners of lanes: they deliver the tasks of their partitions."""
