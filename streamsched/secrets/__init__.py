"""Secrets: reading what references name, and keeping the values out of texts."""
