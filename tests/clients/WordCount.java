import java.io.PrintWriter;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Instances of applications that count words, exactly once. Standard input has a command a line:
 * "start INSTANCE APPLICATION PROTOCOL INPUT OUTPUT", "close INSTANCE", "tasks". Standard output answers: "tasks
 * INSTANCE:TASK ..." has the active tasks, "closed INSTANCE" and "failed INSTANCE ERROR" say so.
 */
public class WordCount {
    public static void main(String[] arguments) {
        String bootstrap = arguments[0];
        String folder = arguments[1];
        Map<String, KafkaStreams> instances = new TreeMap<>();
        Scanner commands = new Scanner(System.in);
        while (commands.hasNextLine()) {
            String[] words = commands.nextLine().split(" ");
            String name = words.length > 1 ? words[1] : "";
            if (words[0].equals("start")) {
                KafkaStreams started = start(bootstrap, folder + "/" + name, words);
                instances.put(name, started);
            } else if (words[0].equals("close")) {
                instances.remove(name).close(Duration.ofSeconds(20));
                say("closed " + name);
            } else {
                StringBuilder tasks = new StringBuilder("tasks");
                instances.forEach((instance, streams) ->
                    streams.metadataForLocalThreads().forEach(thread ->
                        thread.activeTasks().forEach(task -> tasks.append(" " + instance + ":" + task.taskId()))));
                say(tasks.toString());
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static KafkaStreams start(String bootstrap, String folder, String[] words) {
        String instance = words[1];
        String protocol = words[3];
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, words[2]);
        settings.put(StreamsConfig.CLIENT_ID_CONFIG, instance);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, protocol);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put("producer.transaction.timeout.ms", 2000);
        settings.put("consumer.auto.offset.reset", "earliest");
        if (protocol.equals("classic")) {
            settings.put("consumer.session.timeout.ms", 6000);
            settings.put("consumer.heartbeat.interval.ms", 200);
            settings.put(StreamsConfig.ACCEPTABLE_RECOVERY_LAG_CONFIG, Long.MAX_VALUE);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(words[4])
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(words[5]);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace(new PrintWriter(System.err, true));
            say("failed " + instance + " " + error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        return streams;
    }
}
