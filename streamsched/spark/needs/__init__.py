"""What a Spark program needs, on the machine where it starts: options, an environment, secrets, bundles."""
