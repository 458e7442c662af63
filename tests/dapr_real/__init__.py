"""The real Dapr: an unchanged SDK, an unchanged sidecar, and launchers in place of its scheduler. Not run by CI."""
