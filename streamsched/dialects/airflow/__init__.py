"""DAGs of Airflow."""
