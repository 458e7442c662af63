"""Commands about the versions of schedules."""
