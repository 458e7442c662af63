"""Webhooks: the loop that puts changes into their queues, and their deliveries."""
