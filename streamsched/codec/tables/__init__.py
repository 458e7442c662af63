"""Logs of table formats."""
