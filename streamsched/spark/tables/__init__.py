"""Tables and folders that others write, as datasets: their commits become events."""
