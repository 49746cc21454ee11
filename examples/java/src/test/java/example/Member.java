package example;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import kafkashim.Coordinator;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The consumer under test, in its own thread. */
final class Member implements AutoCloseable {
    private final KafkaConsumer<String, String> consumer;
    private final Thread thread = new Thread(this::run);
    private final List<Long> offsets = new ArrayList<>();

    Member(Coordinator coordinator, String group, String name) {
        consumer = new KafkaConsumer<>(Map.of(
            "bootstrap.servers", coordinator.bootstrap(), "group.id", group, "client.id", name,
            "auto.offset.reset", "earliest", "auto.commit.interval.ms", "100", "session.timeout.ms", "45000",
            "heartbeat.interval.ms", "100"), new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of("orders"));
        thread.start();
    }

    /** Waits until this many records were consumed; returns their offsets. */
    synchronized List<Long> consumed(int records) throws InterruptedException {
        long end = System.currentTimeMillis() + 20_000;
        while (offsets.size() < records && System.currentTimeMillis() < end) {
            wait(1000);
        }
        return List.copyOf(offsets);
    }

    private void run() {
        try (consumer) {
            while (true) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    synchronized (this) {
                        offsets.add(record.offset());
                        notifyAll();
                    }
                }
            }
        } catch (WakeupException closed) {
            // The consumer leaves its group when it is closed.
        }
    }

    @Override
    public void close() throws InterruptedException {
        consumer.wakeup();
        thread.join();
    }
}
