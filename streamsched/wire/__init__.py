"""What the API and its clients send each other, one module for each resource (`streamsched.codec.shape`)."""
