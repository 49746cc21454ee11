package example;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import kafkashim.Coordinator;
import kafkashim.CoordinatorExtension;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/**
 * A consumer learns that its session has ended: its listener is told that its partitions are lost, not revoked.
 *
 * <p>https://github.com/apache/kafka/pull/22273 (Java, 2026): with MockConsumer no test could do this.
 */
final class LostPartitionsTest {
    @RegisterExtension
    static final CoordinatorExtension KAFKA = new CoordinatorExtension("--topic", "orders:2");

    private static final Set<TopicPartition> ALL =
            Set.of(new TopicPartition("orders", 0), new TopicPartition("orders", 1));

    @Test
    void ofAClassicGroup(Coordinator kafka) throws Exception {
        partitionsAreLost(kafka, "old", Map.of("heartbeat.interval.ms", "100"));
    }

    @Test
    void ofAConsumerGroup(Coordinator kafka) throws Exception {
        partitionsAreLost(kafka, "new", Map.of("group.protocol", "consumer"));
    }

    private static void partitionsAreLost(Coordinator kafka, String group, Map<String, String> more)
            throws Exception {
        var settings = new HashMap<String, Object>(more);
        settings.putAll(Map.of("bootstrap.servers", kafka.bootstrap(), "group.id", group, "client.id", "mine"));
        List<TopicPartition> revoked = new ArrayList<>();
        Set<TopicPartition> lost = new HashSet<>();
        var listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                revoked.addAll(partitions);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                lost.addAll(partitions);
            }
        };
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"), listener);
            while (!consumer.assignment().equals(ALL)) {
                consumer.poll(Duration.ofMillis(100));
            }
            // From kafka-clients 4.4 on the offsets are fetched by a later poll, and poll throws if the member is gone by then.
            ALL.forEach(consumer::position);
            kafka.post("/v1/groups/" + group + "/expire", "member", "mine");
            while (lost.isEmpty()) {
                consumer.poll(Duration.ofMillis(100));
            }
            assertEquals(ALL, lost);
            assertEquals(List.of(), revoked);
            while (!consumer.assignment().equals(ALL)) {
                consumer.poll(Duration.ofMillis(100));
            }
            kafka.await(group, "stable", "members", List.of("mine"));
        }
    }
}
