"""Answers to changes and to requests for their plans."""
