"""The durable log on PostgreSQL: batches of records in one table, fences and ends in two small ones."""
