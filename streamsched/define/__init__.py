"""The Python API for defining apps, programs, schedules and triggers, and loading of definition files."""
