"""Sizes of topics, for watchers."""
