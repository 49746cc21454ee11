import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The Java consumer behind the line protocol of lines.py. */
public final class Adapter implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "RangeAssignor",
        "roundrobin", "RoundRobinAssignor",
        "sticky", "StickyAssignor",
        "cooperative-sticky", "CooperativeStickyAssignor");

    private final JsonNode config;
    private final KafkaConsumer<String, String> consumer;
    private final LinkedBlockingQueue<String> commands = new LinkedBlockingQueue<>();
    private boolean held;
    private boolean rebalanced;
    private Object lastReport;

    private Adapter(JsonNode config) throws ReflectiveOperationException {
        this.config = config;
        Properties options = new Properties();
        options.put("bootstrap.servers", config.get("bootstrap").asText());
        options.put("client.id", config.get("client_id").asText());
        options.put("group.id", config.get("group").asText());
        options.put("metadata.max.age.ms", config.get("metadata_ms").asText());
        options.put("auto.offset.reset", "earliest");
        options.put("enable.auto.commit", "false");
        options.put("fetch.max.wait.ms", "100");
        // Settings of security, by Kafka's names.
        config.path("options").fields().forEachRemaining(each -> options.put(each.getKey(), each.getValue().asText()));
        if (config.has("instance")) {
            options.put("group.instance.id", config.get("instance").asText());
        }
        if (config.has("max_poll_ms")) {
            options.put("max.poll.interval.ms", config.get("max_poll_ms").asText());
        }
        if (config.path("protocol").asText().equals("consumer")) {
            // The coordinator tells how often to heartbeat and how long a session lasts.
            options.put("group.protocol", "consumer");
            if (config.has("assignors")) {
                options.put("group.remote.assignor", config.get("assignors").get(0).asText());
            }
        } else {
            options.put("session.timeout.ms", config.get("session_ms").asText());
            options.put("heartbeat.interval.ms", config.get("heartbeat_ms").asText());
        }
        if (config.has("assignors") && !options.containsKey("group.protocol")) {
            List<String> names = new ArrayList<>();
            config.get("assignors").forEach(
                name -> names.add("org.apache.kafka.clients.consumer." + ASSIGNORS.get(name.asText())));
            options.put("partition.assignment.strategy", String.join(",", names));
        }
        consumer = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer());
        if (config.has("pattern")) {
            // Of 4.0 and later alone: older releases are compiled from this source too.
            Class<?> pattern = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
            Object made = pattern.getConstructor(String.class).newInstance(config.get("pattern").asText());
            KafkaConsumer.class.getMethod("subscribe", pattern, ConsumerRebalanceListener.class).invoke(consumer, made, this);
        } else {
            consumer.subscribe(named(config), this);
        }
    }

    private static List<String> named(JsonNode from) {
        List<String> topics = new ArrayList<>();
        from.get("topics").forEach(topic -> topics.add(topic.asText()));
        return topics;
    }

    private static synchronized void emit(Object... pairs) throws Exception {
        Map<String, Object> message = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            message.put((String) pairs[at], pairs[at + 1]);
        }
        System.out.println(JSON.writeValueAsString(message));
        System.out.flush();
    }

    private static List<List<Object>> listed(Collection<TopicPartition> partitions) {
        List<List<Object>> found = new ArrayList<>();
        partitions.forEach(each -> found.add(List.of(each.topic(), each.partition())));
        return found;
    }

    private static void event(String name, Collection<TopicPartition> partitions) {
        try {
            emit("event", name, "partitions", listed(partitions));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        rebalanced = true;
        event("assigned", partitions);
        if (config.has("assign_seek")) {
            partitions.forEach(each -> consumer.seek(each, config.get("assign_seek").asLong()));
        }
        if (config.path("assign_unsubscribe").asBoolean()) {
            consumer.unsubscribe();
        }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        event("revoked", partitions);
        if (config.path("revoke_commit").asBoolean()) {
            consumer.commitSync();
        }
        try {
            Thread.sleep((long) (config.path("revoke_s").asDouble(0) * 1000));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        event("lost", partitions);
    }

    private static List<TopicPartition> partitions(JsonNode command) {
        List<TopicPartition> partitions = new ArrayList<>();
        command.get("partitions").forEach(
            each -> partitions.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
        return partitions;
    }

    private Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode command) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new LinkedHashMap<>();
        command.path("offsets").forEach(each -> offsets.put(
            new TopicPartition(each.get(0).asText(), each.get(1).asInt()), new OffsetAndMetadata(each.get(2).asLong())));
        return offsets;
    }

    /** Whether the member goes on. */
    private boolean carryOut(JsonNode command) throws Exception {
        int number = command.get("id").asInt();
        try {
            switch (command.get("do").asText()) {
                case "hold" -> held = true;
                case "go" -> held = false;
                case "subscribe" -> consumer.subscribe(named(command), this);
                case "unsubscribe" -> consumer.unsubscribe();
                case "pause" -> consumer.pause(partitions(command));
                case "resume" -> consumer.resume(partitions(command));
                case "seek" -> offsets(command).forEach(consumer::seek);
                case "commit" -> consumer.commitSync(offsets(command));
                case "commit_async" -> {
                    consumer.commitAsync(offsets(command), (done, error) -> {
                        try {
                            if (error == null) {
                                emit("reply", number, "value", null);
                            } else {
                                emit("reply", number, "error", error.getClass().getSimpleName(), "text", "" + error);
                            }
                        } catch (Exception unwritable) {
                            throw new IllegalStateException(unwritable);
                        }
                    });
                    return true;
                }
                case "close" -> {
                    consumer.close();
                    emit("reply", number, "value", null);
                    emit("event", "closed");
                    return false;
                }
                default -> throw new IllegalArgumentException(command.toString());
            }
            emit("reply", number, "value", null);
        } catch (Exception error) {
            emit("reply", number, "error", error.getClass().getSimpleName(), "text", "" + error);
        }
        return true;
    }

    private void poll() throws Exception {
        Map<TopicPartition, List<List<Object>>> found = new LinkedHashMap<>();
        try {
            for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
                TopicPartition from = new TopicPartition(each.topic(), each.partition());
                List<Object> record = new ArrayList<>();
                record.add(each.offset());
                record.add(each.key());
                record.add(each.value());
                record.add(List.of());
                found.computeIfAbsent(from, key -> new ArrayList<>()).add(record);
            }
        } catch (RuntimeException error) {
            emit("event", "error", "name", error.getClass().getSimpleName(), "text", "" + error);
            // A fenced client says so for ever; the test decides what comes next.
            held = !(error instanceof RetriableException);
        }
        List<Object> now = List.of(
            listed(consumer.assignment()), consumer.groupMetadata().generationId(), consumer.groupMetadata().memberId());
        if (rebalanced || !now.equals(lastReport)) {
            rebalanced = false;
            lastReport = now;
            emit("event", "owns", "partitions", now.get(0), "generation", now.get(1), "member", now.get(2));
        }
        for (Map.Entry<TopicPartition, List<List<Object>>> each : found.entrySet()) {
            emit("event", "records", "topic", each.getKey().topic(), "partition", each.getKey().partition(),
                "records", each.getValue());
        }
    }

    private void run() throws Exception {
        Thread reader = new Thread(() -> {
            try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    commands.add(line);
                }
            } catch (Exception error) {
                System.err.println(error);
            }
            System.exit(0);
        });
        reader.setDaemon(true);
        reader.start();
        emit("event", "started");
        boolean going = true;
        while (going) {
            String command = held ? commands.take() : commands.poll();
            if (command != null) {
                going = carryOut(JSON.readTree(command));
            } else {
                poll();
            }
        }
        System.exit(0);
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode config = JSON.readTree(arguments[0]);
        if (config.has("verbose")) {
            System.setProperty("org.slf4j.simpleLogger.log.org.apache.kafka.clients.consumer", "info");
        }
        new Adapter(config).run();
    }
}
