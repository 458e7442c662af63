"""Commits of file sets, and positions of readers of datasets."""
