"""The HTTP interface of PagerDuty's scheduler, `/api/v1`."""
