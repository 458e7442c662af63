"""All that an administrator of CDAP reads by its REST API, as apps, preferences and past runs."""
