package kafkashim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ConnectException;
import java.net.Socket;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

final class CoordinatorTest {
    @RegisterExtension
    static final CoordinatorExtension SHIM = new CoordinatorExtension("--topic", "orders:4");

    @Test
    void aMemberThatIsSilentIsExpelledWhenTheClockMoves(Coordinator shim) {
        shim.puppet("team/billing", List.of("orders"), "client_id", "a");
        int silent = shim.puppet("team/billing", List.of("orders"), "client_id", "b", "session_timeout", 6)
            .get("puppet").asInt();
        shim.await("team/billing", "stable", "members", List.of("a", "b"));
        shim.post("/v1/puppets/" + silent, "do", "silence");
        shim.advance(7);
        shim.await("team/billing", "stable", "members", List.of("a"));
        assertEquals("SESSION_EXPIRED",
            shim.get("/v1/groups/team%2Fbilling").get("rebalance").get("cause").asText());
    }

    @Test
    void aMemberOfEachNewerKindOfGroupTakesOverSoon(Coordinator shim) {
        for (String kind : List.of("consumer", "share", "streams")) {
            int first = shim.puppet(kind, List.of("orders"), "kind", kind, "client_id", "a").get("puppet").asInt();
            shim.puppet(kind, List.of("orders"), "kind", kind, "client_id", "b");
            shim.await(kind, "stable", "members", List.of("a", "b"), "timeout", 4);
            shim.post("/v1/puppets/" + first, "do", "leave");
            shim.await(kind, "stable", "members", List.of("b"), "timeout", 4);
        }
    }

    @Test
    void aFaultThatNeverHappenedIsNamed(Coordinator shim) {
        shim.fault("error", "Heartbeat", "error", "REBALANCE_IN_PROGRESS", "group", "nobody");
        assertEquals(1, shim.delete("/v1/faults").get("unfired").size());
    }

    @Test
    void anErrorIsTheSentenceOfTheServer(Coordinator shim) {
        AssertionError refused = assertThrows(AssertionError.class, () -> shim.get("/v1/groups/nobody"));
        assertTrue(refused.getMessage().contains("no such group"), refused.getMessage());
        IOException failed = assertThrows(IOException.class, () -> new Coordinator("--no-such-option"));
        assertTrue(failed.getMessage().contains("--no-such-option"), failed.getMessage());
    }

    @Test
    void itIsGoneWhenItIsClosed() throws Exception {
        Coordinator two = new Coordinator("--brokers", "2");
        two.close();
        String[] brokers = two.bootstrap().split(",");
        assertEquals(2, brokers.length);
        int port = Integer.parseInt(brokers[0].substring(brokers[0].indexOf(':') + 1));
        assertThrows(ConnectException.class, () -> new Socket("127.0.0.1", port).close());
    }
}
