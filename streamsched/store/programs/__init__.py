"""Profiles and bundles of programs."""
