"""What we need of the world, as Protocols. Adapters live in `store`, `spark` and the broker drivers."""
