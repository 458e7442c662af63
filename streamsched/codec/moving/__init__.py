"""What definitions of other systems become: apps, and a report of what carries over, changes meaning or cannot."""
