import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * An adapter of a client of yours for {@code kafka-shim conformance --adapter "java -cp ... Adapter"}. Fill in the
 * methods of {@code Client}; the rest is the line protocol, which docs/clients.md describes. It needs Jackson.
 */
public final class Adapter {
    private static final Map<String, Object> DESCRIPTION = Map.of(
        "name", "my-client-1.0", "protocols", List.of("classic"), "assignors", List.of("range"),
        "static", false, "abilities", List.of());
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String END = "";

    /** One member of the group. */
    private static final class Client {
        private final JsonNode config;

        /**
         * Make a consumer of the topics at {@code bootstrap}, with auto commit off, earliest first. Its rebalance
         * listener emits {@code assigned}, {@code revoked} and {@code lost} with {@code partitions}.
         */
        Client(JsonNode config) {
            this.config = config;
        }

        /**
         * Poll for at most 100 ms. Emit {@code records}, and {@code owns} when the assignment or the generation has
         * changed: {@code emit("event", "owns", "partitions", List.of(List.of("topic", 0)), "generation", 3,
         * "member", "id")}.
         */
        void poll() throws Exception {
            Thread.sleep(100);
        }

        /** Commit {@code [["topic", 0, 17], ...]} and wait for it. */
        void commit(JsonNode offsets) {
            throw new UnsupportedOperationException("commit is not written yet");
        }

        /** Leave the group in good order. */
        void close() {
        }
    }

    private Adapter() {
    }

    private static synchronized void emit(Object... pairs) throws Exception {
        Map<String, Object> message = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            message.put((String) pairs[at], pairs[at + 1]);
        }
        System.out.println(JSON.writeValueAsString(message));
        System.out.flush();
    }

    private static void read(LinkedBlockingQueue<String> commands) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            lines.lines().forEach(commands::add);
        } catch (Exception error) {
            System.err.println(error);
        }
        commands.add(END);
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("describe")) {
            System.out.println(JSON.writeValueAsString(DESCRIPTION));
            return;
        }
        LinkedBlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(commands));
        reader.setDaemon(true);
        reader.start();
        Client client = new Client(JSON.readTree(arguments[0]));
        emit("event", "started");
        boolean held = false;
        while (true) {
            String line = held ? commands.take() : commands.poll();
            if (line == null) {
                try {
                    client.poll();
                } catch (RuntimeException error) {
                    emit("event", "error", "name", error.getClass().getSimpleName(), "text", "" + error);
                }
                continue;
            }
            if (line.equals(END)) {
                return;
            }
            JsonNode command = JSON.readTree(line);
            int number = command.get("id").asInt();
            String name = command.get("do").asText();
            try {
                switch (name) {
                    case "hold" -> held = true;
                    case "go" -> held = false;
                    case "commit", "commit_async" -> client.commit(command.get("offsets"));
                    case "close" -> client.close();
                    default -> throw new UnsupportedOperationException(name + " is not written yet");
                }
                emit("reply", number, "value", null);
            } catch (RuntimeException error) {
                emit("reply", number, "error", error.getClass().getSimpleName(), "text", "" + error.getMessage());
            }
            if (name.equals("close")) {
                emit("event", "closed");
                return;
            }
        }
    }
}
