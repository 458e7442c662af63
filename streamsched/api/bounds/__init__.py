"""What bounds requests: their bodies, the room for all of these, and connections."""
