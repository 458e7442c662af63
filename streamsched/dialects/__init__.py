"""Formats and interfaces of other products, a folder for each (`streamsched.parts`). Delete one, and it is gone."""
