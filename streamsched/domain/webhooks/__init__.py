"""Webhooks: which changes of jobs and runs are sent where, signed and in order."""
