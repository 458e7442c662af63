"""Which commits of a file set at a URL are visible: numbered files, or rows behind the API."""
