"""Crontabs of users and of the system."""
