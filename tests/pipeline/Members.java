import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

/**
 * Share consumers, and instances of streams applications that copy topics, a subtopology each. Standard input has a
 * command a line: "share NAME GROUP TOPIC", "streams NAME GROUP TOPIC,... OUTPUT", "close NAME". The answer is "done".
 */
public final class Members {
    private static final Map<String, Runnable> CLOSING = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "share" -> share(arguments[0], words);
                case "streams" -> streams(arguments[0], words);
                case "close" -> CLOSING.remove(words[1]).run();
                default -> throw new IllegalArgumentException(line);
            }
            System.out.println("done");
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void share(String bootstrap, String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", words[1]);
        settings.put("group.id", words[2]);
        settings.put("metadata.max.age.ms", "1000");
        AtomicBoolean goesOn = new AtomicBoolean(true);
        CountDownLatch ended = new CountDownLatch(1);
        Thread polling = new Thread(() -> {
            try (KafkaShareConsumer<String, String> consumer =
                    new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of(words[3]));
                while (goesOn.get()) {
                    consumer.poll(Duration.ofMillis(100));
                }
            } finally {
                ended.countDown();
            }
        });
        polling.setDaemon(true);
        polling.start();
        CLOSING.put(words[1], () -> {
            goesOn.set(false);
            try {
                ended.await();
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        });
    }

    private static void streams(String bootstrap, String[] words) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, words[2]);
        settings.put(StreamsConfig.CLIENT_ID_CONFIG, words[1]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("state") + "/" + words[1]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
        settings.put(StreamsConfig.METADATA_MAX_AGE_CONFIG, 1000);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put("consumer.auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        for (String topic : words[3].split(",")) {
            builder.<String, String>stream(topic).to(words[4]);
        }
        KafkaStreams instance = new KafkaStreams(builder.build(), settings);
        instance.start();
        CLOSING.put(words[1], instance::close);
    }
}
