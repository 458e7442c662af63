"""What Dapr's jobs need of the world, beyond what tasks need."""
