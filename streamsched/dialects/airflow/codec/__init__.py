"""DAG files of Airflow, read without executing them."""
