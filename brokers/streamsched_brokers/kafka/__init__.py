"""The log on Apache Kafka, by aiokafka: fenced transactions, committed reads, topics made and checked."""
