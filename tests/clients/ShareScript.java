import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Share consumers that do what each line of standard input says, and answer with one line. */
public class ShareScript {
    private static final Map<String, KafkaShareConsumer<String, String>> CONSUMERS = new HashMap<>();
    private static final Map<String, Map<Long, ConsumerRecord<String, String>>> HELD = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = run(arguments[0], line.trim().split(" "));
            } catch (Exception failure) {
                answer = "failed " + failure;
            }
            System.out.println("> " + answer.replace('\n', ' '));
        }
        System.exit(0);
    }

    private static String run(String bootstrap, String[] words) {
        String name = words[1];
        KafkaShareConsumer<String, String> consumer = CONSUMERS.get(name);
        switch (words[0]) {
            case "new":
                Properties config = new Properties();
                config.put("bootstrap.servers", bootstrap);
                config.put("group.id", words[2]);
                config.put("client.id", name);
                config.put("share.acknowledgement.mode", words[4]);
                consumer = new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer());
                consumer.subscribe(List.of(words[3]));
                CONSUMERS.put(name, consumer);
                HELD.put(name, new HashMap<>());
                return "made";
            case "poll":
                StringBuilder found = new StringBuilder("polled");
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(Long.parseLong(words[2])))) {
                    HELD.get(name).put(each.offset(), each);
                    found.append(' ').append(each.offset()).append(':').append(each.value());
                    found.append(':').append(each.deliveryCount().get());
                }
                return found.toString();
            case "acknowledge":
                consumer.acknowledge(HELD.get(name).get(Long.parseLong(words[2])), AcknowledgeType.valueOf(words[3]));
                return "acknowledged";
            case "commit":
                return "committed " + consumer.commitSync();
            case "close":
                CONSUMERS.remove(name).close();
                return "closed";
            default:
                return "unknown";
        }
    }
}
