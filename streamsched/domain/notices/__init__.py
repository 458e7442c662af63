"""Notifications: who is notified when something of an app goes wrong, and the text that people read."""
