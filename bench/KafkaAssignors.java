import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/** Asks Kafka's own server-side assignors: a group as a line of JSON in, its assignment and the CPU time it took out. */
public class KafkaAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ThreadMXBean THREAD = ManagementFactory.getThreadMXBean();
    private static final Map<String, PartitionAssignor> ASSIGNORS =
        Map.of("range", new RangeAssignor(), "simple", new SimpleAssignor(), "uniform", new UniformAssignor());

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode question = JSON.readTree(line);
            boolean sticky = question.get("assignor").asText().equals("sticky");
            System.out.println(JSON.writeValueAsString(sticky ? tasks(question) : answer(question)));
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
            owners,
            assignable(question));
        PartitionAssignor assignor = ASSIGNORS.get(question.get("assignor").asText());
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
                member.getValue().partitions().forEach((topic, partitions) -> {
                    ArrayNode numbers = node.putArray(topic.toString());
                    partitions.forEach(numbers::add);
                });
            }
        }
        return answer;
    }

    /** The partitions that may be assigned; a group that is no share group has no such limit. */
    private static Optional<Map<Uuid, Set<Integer>>> assignable(JsonNode question) {
        if (!question.has("assignable")) {
            return Optional.empty();
        }
        Map<Uuid, Set<Integer>> assignable = new HashMap<>();
        question.get("assignable").fields().forEachRemaining(topic -> {
            Set<Integer> numbers = assignable.computeIfAbsent(Uuid.fromString(topic.getKey()), key -> new HashSet<>());
            topic.getValue().forEach(number -> numbers.add(number.asInt()));
        });
        return Optional.of(assignable);
    }

    /** Asks the assignor of streams groups; the answer has the active tasks and the standbys of each member. */
    private static ObjectNode tasks(JsonNode question) {
        Map<String, MemberMetadataAndStateImpl> members = new LinkedHashMap<>();
        for (JsonNode member : question.get("members")) {
            Map<String, Map<Integer, Long>> offsets = new HashMap<>();
            member.get("offsets").forEach(each -> offsets
                .computeIfAbsent(each.get(0).asText(), key -> new HashMap<>())
                .put(each.get(1).asInt(), each.get(2).asLong()));
            members.put(member.get("id").asText(), new MemberMetadataAndStateImpl(
                Optional.empty(), Optional.empty(), member.get("process_id").asText(), Map.of(),
                taskSet(member.get("active")), taskSet(member.get("standby")), Map.of(), offsets, Map.of()));
        }
        // Kafka has its subtopologies in a sorted map.
        Map<String, JsonNode> subtopologies = new TreeMap<>();
        question.get("subtopologies").fields().forEachRemaining(each -> subtopologies.put(each.getKey(), each.getValue()));
        TopologyDescriber topology = new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                return List.copyOf(subtopologies.keySet());
            }

            @Override
            public int maxNumInputPartitions(String subtopology) {
                return subtopologies.get(subtopology).get("tasks").asInt();
            }

            @Override
            public boolean isStateful(String subtopology) {
                return subtopologies.get(subtopology).get("stateful").asBoolean();
            }
        };
        AssignmentConfigsImpl configs = new AssignmentConfigsImpl(question.get("replicas").asInt(), List.of());
        ObjectNode answer = JSON.createObjectNode();
        new StickyTaskAssignor()
            .assign(new org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl(members, configs), topology)
            .members()
            .forEach((id, tasks) -> {
                ObjectNode node = answer.putObject(id);
                node.set("active", JSON.valueToTree(tasks.activeTasks()));
                node.set("standby", JSON.valueToTree(tasks.standbyTasks()));
            });
        return answer;
    }

    private static Map<String, Set<Integer>> taskSet(JsonNode subtopologies) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        subtopologies.fields().forEachRemaining(each -> {
            Set<Integer> numbers = tasks.computeIfAbsent(each.getKey(), key -> new HashSet<>());
            each.getValue().forEach(number -> numbers.add(number.asInt()));
        });
        return tasks;
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
