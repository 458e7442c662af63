"""The log on PostgreSQL: batches of records in one table, fences and partition ends in two small ones."""
