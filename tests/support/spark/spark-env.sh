# The JVM that makes the command lines of Spark's own ones, which have their options in `java-opts`.
export SPARK_LAUNCHER_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
