"""Writes to datasets, and the job they belong to."""
