"""JSON Schema (2020-12) of the documents that this package reads and writes.

A schema names others as `{"$ref": "#/$defs/Name"}`. It says which members a document has and of which kind they are, in
the canonical spelling; what depends on meaning, such as a cron expression that never matches, only the reader knows.
"""
