"""What the delivery of tasks needs of the world."""
