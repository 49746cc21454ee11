import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions in groups of both protocols, and an administrator's round: a line of output for each step. */
public class Tour {
    private static final List<String> FEATURES =
        List.of("group.version", "share.version", "streams.version", "transaction.version");
    private static final long SECONDS = 60;
    private static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        String name = arguments[1], source = name + "-in", target = name + "-out", queue = "dlq." + name;
        try (Admin admin = Admin.create(settings())) {
            Map<String, String> letters = Map.of("errors.deadletterqueue.group.enable", "true");
            admin.createTopics(List.of(
                new NewTopic(source, 2, (short) 1), new NewTopic(target, 1, (short) 1),
                new NewTopic(queue, 1, (short) 1).configs(letters))).all().get();
            Map<String, Object> levels = new TreeMap<>();
            admin.describeFeatures().featureMetadata().get().finalizedFeatures().forEach((feature, range) -> {
                if (FEATURES.contains(feature)) levels.put(feature, range.maxVersionLevel());
            });
            say("features", levels);
            say("queue", valueOf(admin, ConfigResource.Type.TOPIC, queue, "errors.deadletterqueue.group.enable"));
            try (KafkaProducer<String, String> producer = producer(null)) {
                for (int number = 0; number < 4; number++)
                    producer.send(new ProducerRecord<>(source, number % 2, null, "v" + number)).get();
            }
            for (String protocol : List.of("classic", "consumer")) transact(admin, protocol, name, source, target);
            administrate(admin, name, source);
        }
    }

    private static void transact(Admin admin, String protocol, String name, String source, String target)
            throws Exception {
        String group = name + "-" + protocol;
        try (KafkaConsumer<String, String> consumer = consumer(group, protocol);
                KafkaProducer<String, String> producer = producer(group)) {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            for (String end : List.of("abort", "commit")) {
                TreeSet<String> values = new TreeSet<>();
                for (ConsumerRecord<String, String> each : poll(consumer, 4)) values.add(each.value());
                say(protocol + " read", values);
                producer.beginTransaction();
                for (String value : values) producer.send(new ProducerRecord<>(target, protocol + " " + end + " " + value));
                Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
                for (TopicPartition each : consumer.assignment())
                    positions.put(each, new OffsetAndMetadata(consumer.position(each)));
                producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
                if (end.equals("commit")) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                    consumer.seekToBeginning(consumer.assignment());
                }
                say(protocol + " " + end, offsets(admin, group));
            }
            try (KafkaProducer<String, String> next = producer(group)) {
                next.initTransactions();
                try {
                    producer.beginTransaction();
                    producer.send(new ProducerRecord<>(target, "never"));
                    producer.commitTransaction();
                    say(protocol + " zombie", "committed");
                } catch (KafkaException fenced) {
                    say(protocol + " zombie", "fenced");
                }
            }
        }
        try (KafkaConsumer<String, String> reader = consumer(group + "-reader", protocol)) {
            reader.assign(List.of(new TopicPartition(target, 0)));
            int expected = protocol.equals("classic") ? 4 : 8;
            TreeSet<String> values = new TreeSet<>();
            for (ConsumerRecord<String, String> each : poll(reader, expected)) values.add(each.value());
            say(protocol + " committed", values);
        }
    }

    private static void administrate(Admin admin, String name, String source) throws Exception {
        String group = name + "-consumer";
        Map<String, String> types = new TreeMap<>();
        admin.listGroups().all().get().forEach(each -> {
            if (each.groupId().startsWith(name)) types.put(each.groupId().substring(name.length() + 1), each.type().get().toString());
        });
        say("groups", types);
        TopicPartition first = new TopicPartition(source, 0);
        admin.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(1))).all().get();
        say("altered", offsets(admin, group));
        admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get();
        say("deleted", offsets(admin, group));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry("consumer.assignment.interval.ms", "500"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
        String value = "";
        for (long ends = System.nanoTime() + SECONDS * 1_000_000_000L; !value.equals("500") && System.nanoTime() < ends;)
            value = valueOf(admin, ConfigResource.Type.GROUP, group, "consumer.assignment.interval.ms");
        say("interval", value);
        admin.deleteConsumerGroups(List.of(group)).all().get();
        say("left", admin.listGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)));
    }

    private static List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        for (long ends = System.nanoTime() + SECONDS * 1_000_000_000L; found.size() < count && System.nanoTime() < ends;)
            consumer.poll(Duration.ofMillis(200)).forEach(found::add);
        return found;
    }

    private static Map<Integer, Long> offsets(Admin admin, String group) throws Exception {
        Map<Integer, Long> found = new TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((partition, offset) -> {
            if (offset != null) found.put(partition.partition(), offset.offset());
        });
        return found;
    }

    private static String valueOf(Admin admin, ConfigResource.Type type, String name, String setting) throws Exception {
        ConfigResource resource = new ConfigResource(type, name);
        ConfigEntry found = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(setting);
        return found == null ? "none" : found.value();
    }

    private static Properties settings(String... pairs) {
        Properties made = new Properties();
        made.put("bootstrap.servers", bootstrap);
        for (int place = 0; place < pairs.length; place += 2) made.put(pairs[place], pairs[place + 1]);
        return made;
    }

    private static KafkaConsumer<String, String> consumer(String group, String protocol) {
        Properties settings = settings("group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest",
            "enable.auto.commit", "false", "isolation.level", "read_committed");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static KafkaProducer<String, String> producer(String transactionalId) {
        Properties settings = transactionalId == null ? settings() : settings("transactional.id", transactionalId);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static void say(String step, Object result) {
        System.out.println(step + ": " + result);
    }
}
