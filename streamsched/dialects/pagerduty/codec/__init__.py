"""PagerDuty's scheduler: its tasks as JSON, the text of their keys, and its partitioner."""
