"""A crontab, whose entries become programs and schedules."""
