"""Sending the spans of jobs and runs."""
