"""CDAP's REST API for schedules, `/v3/namespaces/{namespace}/…`, over the same catalog as the native API (ADR 29).

Bodies are decoded by `codec`; errors are plain text. Intended differences from CDAP: invalid content that CDAP
accepted or answered with 500 is a 400 that names the field; an update is one transaction, and an update that changes
nothing keeps all accumulated events.
"""
