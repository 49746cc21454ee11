import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.listener.AcknowledgingMessageListener;
import org.springframework.kafka.listener.ConsumerAwareRebalanceListener;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;

/**
 * Spring Kafka's listener container behind the line protocol of lines.py. The container polls; commands are carried out
 * on its thread, before a poll.
 */
public final class Spring implements ConsumerAwareRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "RangeAssignor",
        "roundrobin", "RoundRobinAssignor",
        "sticky", "StickyAssignor",
        "cooperative-sticky", "CooperativeStickyAssignor");

    private final JsonNode config;
    private final KafkaMessageListenerContainer<String, String> container;
    private final LinkedBlockingQueue<JsonNode> commands = new LinkedBlockingQueue<>();
    private boolean held;
    private boolean rebalanced;
    private Object lastReport;

    private Spring(JsonNode config) {
        this.config = config;
        var properties = new ContainerProperties(named(config).toArray(String[]::new));
        properties.setAckMode(ContainerProperties.AckMode.MANUAL);
        properties.setPollTimeout(100);
        properties.setConsumerRebalanceListener(this);
        properties.setMessageListener((AcknowledgingMessageListener<String, String>) (record, acknowledgment) -> {
            List<Object> shown = new ArrayList<>();
            shown.add(record.offset());
            shown.add(record.key());
            shown.add(record.value());
            shown.add(List.of());
            emit("event", "records", "topic", record.topic(), "partition", record.partition(), "records", List.of(shown));
        });
        container = new KafkaMessageListenerContainer<>(new Factory(options(config)), properties);
    }

    /** Makes consumers whose polls the adapter sees. */
    private final class Factory extends DefaultKafkaConsumerFactory<String, String> {
        Factory(Map<String, Object> options) {
            super(options, new StringDeserializer(), new StringDeserializer());
        }

        @Override
        @SuppressWarnings("unchecked")
        protected Consumer<String, String> createRawConsumer(Map<String, Object> options) {
            Consumer<String, String> consumer = super.createRawConsumer(options);
            return (Consumer<String, String>) Proxy.newProxyInstance(
                Spring.class.getClassLoader(), new Class<?>[] {Consumer.class},
                (proxy, method, arguments) -> called(consumer, method, arguments));
        }
    }

    private Object called(Consumer<String, String> consumer, Method method, Object[] arguments) throws Throwable {
        boolean polls = method.getName().equals("poll");
        if (polls) {
            carryOutAll(consumer);
        }
        try {
            return method.invoke(consumer, arguments);
        } catch (InvocationTargetException failed) {
            Throwable error = failed.getCause();
            if (polls && !(error instanceof WakeupException)) {
                emit("event", "error", "name", error.getClass().getSimpleName(), "text", "" + error);
            }
            throw error;
        } finally {
            if (polls) {
                report(consumer);
            }
        }
    }

    private static Map<String, Object> options(JsonNode config) {
        Map<String, Object> options = new LinkedHashMap<>();
        options.put("bootstrap.servers", config.get("bootstrap").asText());
        options.put("client.id", config.get("client_id").asText());
        options.put("group.id", config.get("group").asText());
        options.put("metadata.max.age.ms", config.get("metadata_ms").asText());
        options.put("auto.offset.reset", "earliest");
        options.put("enable.auto.commit", "false");
        options.put("fetch.max.wait.ms", "100");
        options.put("session.timeout.ms", config.get("session_ms").asText());
        options.put("heartbeat.interval.ms", config.get("heartbeat_ms").asText());
        if (config.has("instance")) {
            options.put("group.instance.id", config.get("instance").asText());
        }
        if (config.has("max_poll_ms")) {
            options.put("max.poll.interval.ms", config.get("max_poll_ms").asText());
        }
        if (config.has("assignors")) {
            List<String> names = new ArrayList<>();
            config.get("assignors").forEach(
                name -> names.add("org.apache.kafka.clients.consumer." + ASSIGNORS.get(name.asText())));
            options.put("partition.assignment.strategy", String.join(",", names));
        }
        return options;
    }

    private static List<String> named(JsonNode from) {
        List<String> topics = new ArrayList<>();
        from.get("topics").forEach(topic -> topics.add(topic.asText()));
        return topics;
    }

    private static synchronized void emit(Object... pairs) {
        Map<String, Object> message = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            message.put((String) pairs[at], pairs[at + 1]);
        }
        try {
            System.out.println(JSON.writeValueAsString(message));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        System.out.flush();
    }

    private static List<List<Object>> listed(Collection<TopicPartition> partitions) {
        List<List<Object>> found = new ArrayList<>();
        partitions.forEach(each -> found.add(List.of(each.topic(), each.partition())));
        return found;
    }

    @Override
    public void onPartitionsAssigned(Consumer<?, ?> consumer, Collection<TopicPartition> partitions) {
        rebalanced = true;
        emit("event", "assigned", "partitions", listed(partitions));
        if (config.has("assign_seek")) {
            partitions.forEach(each -> consumer.seek(each, config.get("assign_seek").asLong()));
        }
    }

    @Override
    public void onPartitionsRevokedBeforeCommit(Consumer<?, ?> consumer, Collection<TopicPartition> partitions) {
        emit("event", "revoked", "partitions", listed(partitions));
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
    public void onPartitionsLost(Consumer<?, ?> consumer, Collection<TopicPartition> partitions) {
        emit("event", "lost", "partitions", listed(partitions));
    }

    private void report(Consumer<String, String> consumer) {
        List<Object> now = List.of(
            listed(consumer.assignment()), consumer.groupMetadata().generationId(), consumer.groupMetadata().memberId());
        if (rebalanced || !now.equals(lastReport)) {
            rebalanced = false;
            lastReport = now;
            emit("event", "owns", "partitions", now.get(0), "generation", now.get(1), "member", now.get(2));
        }
    }

    /** Carries out what has come; while the member is held, waits for more. */
    private void carryOutAll(Consumer<String, String> consumer) throws InterruptedException {
        for (JsonNode next = commands.poll(); held || next != null; next = held ? commands.take() : commands.poll()) {
            if (next != null && !next.path("do").asText().equals("close")) {
                carryOut(consumer, next);
            } else if (next != null) {
                return;
            }
        }
    }

    private void carryOut(Consumer<String, String> consumer, JsonNode command) {
        int number = command.get("id").asInt();
        Map<TopicPartition, OffsetAndMetadata> offsets = new LinkedHashMap<>();
        command.path("offsets").forEach(each -> offsets.put(
            new TopicPartition(each.get(0).asText(), each.get(1).asInt()), new OffsetAndMetadata(each.get(2).asLong())));
        try {
            switch (command.get("do").asText()) {
                case "hold" -> held = true;
                case "go" -> held = false;
                case "seek" -> offsets.forEach(consumer::seek);
                case "pause" -> partitions(command).forEach(container::pausePartition);
                case "resume" -> partitions(command).forEach(container::resumePartition);
                case "commit" -> consumer.commitSync(offsets);
                case "commit_async" -> {
                    consumer.commitAsync(offsets, (done, error) -> answer(number, error));
                    return;
                }
                default -> throw new IllegalArgumentException(command.toString());
            }
            answer(number, null);
        } catch (Exception error) {
            answer(number, error);
        }
    }

    private static void answer(int number, Exception error) {
        if (error == null) {
            emit("reply", number, "value", null);
        } else {
            emit("reply", number, "error", error.getClass().getSimpleName(), "text", "" + error);
        }
    }

    private static List<TopicPartition> partitions(JsonNode command) {
        List<TopicPartition> partitions = new ArrayList<>();
        command.get("partitions").forEach(
            each -> partitions.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
        return partitions;
    }

    private void run() throws Exception {
        emit("event", "started");
        container.start();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                JsonNode command = JSON.readTree(line);
                commands.add(command);
                if (command.get("do").asText().equals("close")) {
                    container.stop();
                    answer(command.get("id").asInt(), null);
                    emit("event", "closed");
                    break;
                }
            }
        }
        System.exit(0);
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode config = JSON.readTree(arguments[0]);
        if (config.has("verbose")) {
            System.setProperty("org.slf4j.simpleLogger.log.org.apache.kafka.clients.consumer", "info");
        }
        new Spring(config).run();
    }
}
