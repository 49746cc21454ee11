import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Asks Kafka's own server-side assignors: a group as a line of JSON in, its assignment and the CPU time it took out. */
public class KafkaAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ThreadMXBean THREAD = ManagementFactory.getThreadMXBean();
    private static final Map<String, ConsumerGroupPartitionAssignor> ASSIGNORS =
        Map.of("range", new RangeAssignor(), "uniform", new UniformAssignor());

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode question) {
        Map<Uuid, Integer> counts = new HashMap<>();
        question.get("partitions").fields().forEachRemaining(
            topic -> counts.put(Uuid.fromString(topic.getKey()), topic.getValue().asInt()));
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        // The order of the question is kept, because what the assignors answer depends on it.
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (JsonNode member : question.get("members")) {
            String id = member.get("id").asText();
            Set<Uuid> subscribed = new HashSet<>();
            member.get("topics").forEach(topic -> subscribed.add(Uuid.fromString(topic.asText())));
            subscriptions.add(subscribed);
            Map<Uuid, Set<Integer>> assignment = new LinkedHashMap<>();
            member.get("assignment").fields().forEachRemaining(topic -> {
                Uuid topicId = Uuid.fromString(topic.getKey());
                Set<Integer> partitions = new HashSet<>();
                topic.getValue().forEach(partition -> partitions.add(partition.asInt()));
                assignment.put(topicId, partitions);
                partitions.forEach(
                    partition -> owners.computeIfAbsent(topicId, key -> new HashMap<>()).put(partition, id));
            });
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(),
                Optional.ofNullable(member.get("instance_id").textValue()),
                subscribed,
                new Assignment(Collections.unmodifiableMap(assignment))));
        }
        GroupSpecImpl spec = new GroupSpecImpl(
            members,
            subscriptions.size() <= 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS,
            owners);
        ConsumerGroupPartitionAssignor assignor = ASSIGNORS.get(question.get("assignor").asText());
        ObjectNode answer = JSON.createObjectNode();
        GroupAssignment assignment = null;
        int runs = question.get("runs").asInt();
        boolean read = question.get("read").asBoolean();
        long sum = 0;
        long began = THREAD.getCurrentThreadCpuTime();
        for (int run = 0; run < runs; run++) {
            assignment = assignor.assign(spec, topics);
            sum += read ? sumOfPartitions(assignment) : 0;
        }
        answer.put("nanoseconds", THREAD.getCurrentThreadCpuTime() - began);
        answer.put("sum", sum);
        ObjectNode assigned = answer.putObject("assignment");
        if (question.get("assignment").asBoolean()) {
            for (Map.Entry<String, MemberAssignment> member : assignment.members().entrySet()) {
                ObjectNode node = assigned.putObject(member.getKey());
                member.getValue().partitions().forEach(
                    (topic, partitions) -> partitions.forEach(node.withArray(topic.toString())::add));
            }
        }
        return answer;
    }

    /** Looks at every partition. The sum is of no use, but that no compiler leaves the work out. */
    private static long sumOfPartitions(GroupAssignment assignment) {
        long sum = 0;
        for (MemberAssignment member : assignment.members().values()) {
            for (Set<Integer> partitions : member.partitions().values()) {
                for (int partition : partitions) {
                    sum += partition;
                }
            }
        }
        return sum;
    }
}
