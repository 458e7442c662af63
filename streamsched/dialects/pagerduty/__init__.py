"""PagerDuty's scheduler: tasks that its clients write to a topic, its HTTP interface `/api/v1`, and such a client."""
