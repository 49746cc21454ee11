package example;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A coordinator for tests: a process of kafka-shim, and its control API over HTTP. */
final class Coordinator implements AutoCloseable {
    private static final Pattern READY = Pattern.compile("ready kafka=(\\S+) control=(\\S+)");
    private static final ObjectMapper JSON = new ObjectMapper();

    final String bootstrap;
    private final String control;
    private final Process process;
    private final HttpClient http = HttpClient.newHttpClient();

    /** Starts it, with more options of `kafka-shim serve`; $KAFKA_SHIM is the command if it is not on the path. */
    Coordinator(String... options) throws IOException {
        List<String> command = new ArrayList<>(List.of(
            System.getenv().getOrDefault("KAFKA_SHIM", "kafka-shim"), "serve", "--lab", "--store", "memory:",
            "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0",
            "--config", "group.initial.rebalance.delay.ms=0", "--config", "group.min.session.timeout.ms=1"));
        command.addAll(List.of(options));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        String line = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        Matcher ready = READY.matcher(String.valueOf(line));
        if (!ready.matches()) {
            throw new IOException("kafka-shim does not start");
        }
        bootstrap = ready.group(1);
        control = ready.group(2);
    }

    JsonNode get(String path) {
        return ask("GET", path, null);
    }

    JsonNode delete(String path) {
        return ask("DELETE", path, null);
    }

    /** Fields are names and values in turn. */
    JsonNode post(String path, Object... fields) {
        return ask("POST", path, object(fields));
    }

    /** Waits for what becomes of a group: stable, owns, empty, committed, event or no-rebalance. */
    JsonNode await(String group, String what, Object... fields) {
        Map<String, Object> body = object(fields);
        body.put("for", what);
        return ask("POST", "/v1/groups/" + encoded(group) + "/await", body);
    }

    /** A scripted member of a group of topic orders. */
    JsonNode puppet(String group, Object... fields) {
        Map<String, Object> body = object(fields);
        body.put("group", group);
        body.put("topics", List.of("orders"));
        return ask("POST", "/v1/puppets", body);
    }

    static Map<String, Object> object(Object... fields) {
        Map<String, Object> found = new LinkedHashMap<>();
        for (int at = 0; at < fields.length; at += 2) {
            found.put((String) fields[at], fields[at + 1]);
        }
        return found;
    }

    private JsonNode ask(String method, String path, Object body) {
        try {
            HttpRequest request = HttpRequest.newBuilder(URI.create(control + path))
                .header("Content-Type", "application/json")
                .method(method, body == null
                    ? HttpRequest.BodyPublishers.noBody()
                    : HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(body)))
                .build();
            HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
            JsonNode said = JSON.readTree(answer.body());
            if (answer.statusCode() != 200) {
                // The message of an await in vain tells the story of the group.
                throw new AssertionError(said.path("message").asText());
            }
            return said;
        } catch (IOException | InterruptedException error) {
            throw new AssertionError(method + " " + path, error);
        }
    }

    private static String encoded(String name) {
        return URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
    }

    @Override
    public void close() {
        process.destroy();
    }
}
