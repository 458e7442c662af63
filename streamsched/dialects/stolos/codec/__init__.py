"""The `tasks.json` of Stolos."""
