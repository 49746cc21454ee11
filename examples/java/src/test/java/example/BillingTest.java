package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import kafkashim.Coordinator;
import kafkashim.CoordinatorExtension;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Tests that cause bad moments of a consumer group, with the Java consumer; no test sleeps. */
final class BillingTest {
    @RegisterExtension
    static final CoordinatorExtension SHIM = new CoordinatorExtension("--topic", "orders:4", "--brokers", "2");

    private static final List<String> ORDERS = List.of("orders");

    private Coordinator coordinator;
    private String group;

    @BeforeEach
    void eachTestHasItsGroup(TestInfo test, Coordinator shared) {
        coordinator = shared;
        group = test.getTestMethod().orElseThrow().getName();
    }

    @Test
    void aSessionExpiresWhenTheClockIsPutForward() throws Exception {
        try (Member real = new Member(coordinator, group, "real")) {
            JsonNode silent = coordinator.puppet(group, ORDERS, "client_id", "silent", "session_timeout", 6);
            coordinator.await(group, "stable", "members", List.of("real", "silent"));
            coordinator.post("/v1/puppets/" + silent.get("puppet"), "do", "silence");
            coordinator.advance(7);
            Object everything = Map.of("real", Map.of("orders", List.of(0, 1, 2, 3)));
            coordinator.await(group, "stable", "members", 1, "owners", everything);
            JsonNode rebalance = coordinator.get("/v1/groups/" + group).get("rebalance");
            assertEquals("SESSION_EXPIRED", rebalance.get("cause").asText());
        }
    }

    @Test
    void aRewoundGroupConsumesAgainAndNothingFromBefore() throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", coordinator.bootstrap());
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
                Member real = new Member(coordinator, group, "real")) {
            for (int number = 0; number < 3; number++) {
                producer.send(new ProducerRecord<>("orders", 0, null, "order " + number)).get();
            }
            coordinator.await(group, "committed", "topic", "orders", "partition", 0, "at_least", 3);
            Object where = List.of(Map.of("topic", "orders", "partition", 0, "offset", 1));
            coordinator.post("/v1/groups/" + group + "/rewind", "offsets", where, "timeout", 20);
            assertEquals(List.of(0L, 1L, 2L, 1L, 2L), real.consumed(5));
        }
    }

    @Test
    void r04_whoIsCalledToRejoinKeepsItsMemberId() throws Exception {
        try (Member real = new Member(coordinator, group, "real")) {
            JsonNode before = coordinator.await(group, "stable", "members", 1);
            coordinator.fault("error", "Heartbeat", "group", group, "error", "REBALANCE_IN_PROGRESS");
            JsonNode after = coordinator.await(group, "stable", "generation", 2);
            assertEquals(before.at("/members/0/member_id"), after.at("/members/0/member_id"));
        }
    }

    @Test
    void r07_aCoordinatorThatMovesLeavesNoGhost() throws Exception {
        try (Member real = new Member(coordinator, group, "real")) {
            coordinator.await(group, "stable", "members", 1);
            coordinator.fault("error", "JoinGroup", "client_id", "real", "group", group, "error", "NOT_COORDINATOR");
            int broker = coordinator.get("/v1/groups/" + group).get("coordinator").asInt();
            coordinator.post("/v1/groups/" + group + "/move", "broker", 3 - broker);
            coordinator.puppet(group, ORDERS, "client_id", "second");
            coordinator.await(group, "stable", "members", List.of("real", "second"));
            coordinator.await(group, "no-rebalance", "heartbeats", 3);
        }
    }

    @Test
    void r08_followersKeepAliveWhileTheLeaderTakesItsTime() throws Exception {
        coordinator.puppet(group, ORDERS, "client_id", "leader", "think", 1.5);
        coordinator.await(group, "stable", "members", 1);
        try (Member real = new Member(coordinator, group, "real")) {
            coordinator.await(group, "stable", "members", List.of("leader", "real"));
            coordinator.await(group, "no-rebalance", "heartbeats", 3);
            String story = coordinator.get("/v1/groups/" + group + "/story").toString();
            assertFalse(story.contains("not heard of"), story);
        }
    }

    @Test
    void r17_aMemberThatClosesSaysSo() throws Exception {
        coordinator.puppet(group, ORDERS, "client_id", "other");
        try (Member real = new Member(coordinator, group, "real")) {
            coordinator.await(group, "stable", "members", List.of("other", "real"));
        }
        coordinator.await(group, "event", "event", "exchange", "fields", Map.of("api", "LeaveGroup"));
        Object everything = Map.of("other", Map.of("orders", List.of(0, 1, 2, 3)));
        coordinator.await(group, "stable", "members", 1, "owners", everything);
    }

    @Test
    void r18_twoMembersJoinWithOneIdEach() throws Exception {
        try (Member a = new Member(coordinator, group, "a"); Member b = new Member(coordinator, group, "b")) {
            coordinator.await(group, "stable", "members", List.of("a", "b"));
            JsonNode found = coordinator.await(group, "no-rebalance", "heartbeats", 3);
            assertTrue(found.get("generation").asInt() <= 2);
        }
    }

    @Test
    void r19_aCoordinatorThatIsLoadingIsAskedAgain() throws Exception {
        int fault = coordinator.fault("error", "JoinGroup", "group", group,
            "error", "COORDINATOR_LOAD_IN_PROGRESS", "times", 3).get("fault").asInt();
        try (Member real = new Member(coordinator, group, "real")) {
            coordinator.await(group, "stable", "members", 1);
            assertEquals(3, coordinator.get("/v1/faults/" + fault).get("fired").asInt());
        }
    }
}
