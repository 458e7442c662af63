"""CDAP's REST for schedules, `/v3/namespaces/{namespace}/…`, over the same catalog as our own API.

Bodies are `codec.cdap`'s, errors plain text. What differs from CDAP on purpose: content that it let through or answered
with a 500 is a 400 that names the field; an update is one transaction, and one that changes nothing loses nothing.
"""
