import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends each line of a file, `key TAB value`, with the settings of PagerDuty's client; prints the partitions. */
public final class PlainProducer {
  public static void main(String[] arguments) throws Exception {
    Map<String, Object> settings =
        Map.of("bootstrap.servers", arguments[0], "acks", "all", "compression.type", "snappy", "linger.ms", "50");
    try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
      var sent =
          Files.readAllLines(Path.of(arguments[2])).stream()
              .map(line -> line.split("\t", 2))
              .map(pair -> producer.send(new ProducerRecord<>(arguments[1], pair[0], pair[1])))
              .toList();
      for (var each : sent) System.out.println(each.get().partition());
    }
  }
}
