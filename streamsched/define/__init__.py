"""What users write: apps, programs, schedules and triggers in Python, and how a file of them is loaded."""
