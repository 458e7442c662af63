"""CDAP's JSON. Field names and meanings: CDAP 4.2 to 6.11."""
