"""The log on Apache Kafka with aiokafka: fenced transactions, committed reads, creation and checks of topics."""
