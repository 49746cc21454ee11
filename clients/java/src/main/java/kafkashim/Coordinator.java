package kafkashim;

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
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A coordinator for tests: a process of kafka-shim (pip install 'kafka-group-shim[cli]'), and its control API, docs/http.md. */
public final class Coordinator implements AutoCloseable {
    private static final Pattern READY = Pattern.compile("ready kafka=(\\S+) control=(\\S+)");
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String bootstrap;
    private final String control;
    private final Process process;
    private final HttpClient http = HttpClient.newHttpClient();

    /**
     * Starts a coordinator with these options of `kafka-shim serve`; $KAFKA_SHIM is the command if it is not on the
     * path. Short session timeouts are allowed, there is no initial rebalance delay and no interval between two
     * assignments, and members of the newer kinds of groups send heartbeats every 50 ms. Options of yours come later
     * and win.
     */
    public Coordinator(String... options) throws IOException {
        List<String> command = new ArrayList<>(List.of(
            System.getenv().getOrDefault("KAFKA_SHIM", "kafka-shim"), "serve", "--lab", "--store", "memory:",
            "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--log-level", "error",
            "--config", "group.initial.rebalance.delay.ms=0", "--config", "group.min.session.timeout.ms=1",
            "--config", "group.consumer.assignment.interval.ms=0", "--config", "group.share.assignment.interval.ms=0",
            "--config", "group.streams.assignment.interval.ms=0",
            "--config", "group.streams.initial.rebalance.delay.ms=0",
            "--config", "group.consumer.heartbeat.interval.ms=50", "--config", "group.share.heartbeat.interval.ms=50",
            "--config", "group.streams.heartbeat.interval.ms=50"));
        command.addAll(List.of(options));
        Path errors = Files.createTempFile("kafka-shim", ".log");
        errors.toFile().deleteOnExit();
        try {
            process = new ProcessBuilder(command).redirectError(errors.toFile()).start();
        } catch (IOException error) {
            throw new IOException(error.getMessage() + " (pip install 'kafka-group-shim[cli]', or set KAFKA_SHIM)", error);
        }
        String line = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        Matcher ready = READY.matcher(String.valueOf(line));
        if (!ready.lookingAt()) {
            process.destroy();
            throw new IOException("kafka-shim did not start: " + Files.readString(errors).strip());
        }
        bootstrap = ready.group(1);
        control = ready.group(2);
    }

    /** The value of bootstrap.servers for clients. */
    public String bootstrap() {
        return bootstrap;
    }

    /** The URL of its control server. */
    public String control() {
        return control;
    }

    public JsonNode get(String path) {
        return ask("GET", path, null);
    }

    public JsonNode delete(String path) {
        return ask("DELETE", path, null);
    }

    /** Sends an object to a path of the control API; fields are names and values in turn. */
    public JsonNode post(String path, Object... fields) {
        return ask("POST", path, object(fields));
    }

    /** Waits for a condition of a group: stable, owns, empty, committed, event, no-rebalance or no-commit. */
    public JsonNode await(String group, String what, Object... fields) {
        Map<String, Object> body = object(fields);
        body.put("for", what);
        return ask("POST", "/v1/groups/" + encoded(group) + "/await", body);
    }

    /** Adds a scripted member to a group. */
    public JsonNode puppet(String group, List<String> topics, Object... fields) {
        Map<String, Object> body = object(fields);
        body.put("group", group);
        body.put("topics", topics);
        return ask("POST", "/v1/puppets", body);
    }

    /** Makes the coordinator misbehave; docs/testing.md has the actions. */
    public JsonNode fault(String action, String api, Object... fields) {
        Map<String, Object> body = object(fields);
        body.put("action", action);
        body.put("api", api);
        return ask("POST", "/v1/faults", body);
    }

    /** Advances the clock of the coordinator, which stands still from then on. */
    public void advance(double seconds) {
        post("/v1/clock", "frozen", true);
        post("/v1/clock", "advance", seconds);
    }

    /** What happened, in lines a person reads. */
    public List<String> story() {
        return story(0);
    }

    /** What happened after the event of this number; the newest is in `get("/v1/server")`. */
    public List<String> story(long since) {
        List<String> lines = new ArrayList<>();
        get("/v1/story?since=" + since).get("story").forEach(line -> lines.add(line.asText()));
        return lines;
    }

    /** Writes the events so far as a trace file, for `kafka-shim why` and its page. */
    public void writeTrace(Path path) {
        try {
            HttpRequest request = HttpRequest.newBuilder(URI.create(control + "/v1/trace")).build();
            http.send(request, HttpResponse.BodyHandlers.ofFile(path));
        } catch (IOException | InterruptedException error) {
            throw new AssertionError("GET /v1/trace", error);
        }
    }

    /** Ends the process. */
    @Override
    public void close() {
        process.destroy();
        try {
            process.waitFor();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static Map<String, Object> object(Object... fields) {
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
            HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
            JsonNode answer = JSON.readTree(response.body());
            if (response.statusCode() / 100 != 2) {
                // The message of a failed wait contains the history of the group.
                throw new AssertionError(method + " " + path + ": " + answer.path("message").asText());
            }
            return answer;
        } catch (IOException | InterruptedException error) {
            throw new AssertionError(method + " " + path, error);
        }
    }

    private static String encoded(String name) {
        return URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
