"""Changes of jobs and runs: where they are sent, and as a stream."""
