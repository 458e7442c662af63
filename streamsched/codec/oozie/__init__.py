"""Coordinators of Oozie."""
