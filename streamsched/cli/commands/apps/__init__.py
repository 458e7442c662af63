"""Commands about files of apps: plan, apply and validate."""
