"""The description of the HTTP API: an OpenAPI 3.1 document with the schema and an example of every body."""
