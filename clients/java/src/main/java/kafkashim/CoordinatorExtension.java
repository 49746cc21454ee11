package kafkashim;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.opentest4j.TestAbortedException;

/**
 * A coordinator for the tests of a class: register it as a static field, and take a {@link Coordinator} as a parameter.
 * After each test the clock goes on, and a test fails if a fault that it added was not used. The failure of a test has
 * the story of its groups, and the path of the trace, as a suppressed {@link Story}.
 */
public final class CoordinatorExtension
        implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback, TestExecutionExceptionHandler,
        ParameterResolver {
    private static final int STORY_LINES = 200;

    private final String[] options;
    private Coordinator coordinator;

    /** Options of `kafka-shim serve`. */
    public CoordinatorExtension(String... options) {
        this.options = options;
    }

    /** The coordinator, while tests run. */
    public Coordinator coordinator() {
        return coordinator;
    }

    @Override
    public void beforeAll(ExtensionContext context) throws Exception {
        coordinator = new Coordinator(options);
        // It ends after the other extensions, such as a Spring context with consumers.
        context.getStore(Namespace.create(this)).put("coordinator", new Closing(coordinator));
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        store(context).put("newest", coordinator.get("/v1/server").get("newest").asLong());
    }

    @Override
    public void handleTestExecutionException(ExtensionContext context, Throwable failure) throws Throwable {
        if (!(failure instanceof TestAbortedException)) {
            failure.addSuppressed(new Story(told(store(context).getOrDefault("newest", Long.class, 0L))));
        }
        throw failure;
    }

    private Store store(ExtensionContext context) {
        return context.getStore(Namespace.create(this, context.getUniqueId()));
    }

    private String told(long since) {
        try {
            List<String> story = coordinator.story(since);
            int leftOut = Math.max(0, story.size() - STORY_LINES);
            Path trace = Files.createTempFile("kafka-shim-", ".jsonl");
            coordinator.writeTrace(trace);
            return (story.isEmpty() ? "nothing has happened\n" : "the story of the test\n")
                + (leftOut > 0 ? "(" + leftOut + " lines before these)\n" : "")
                + String.join("\n", story.subList(leftOut, story.size())) + "\nThe trace: " + trace;
        } catch (AssertionError | IOException error) {
            return "the coordinator does not tell it: " + error;
        }
    }

    /** JUnit before 5.13 closes only the first of these interfaces; later releases warn without the second. */
    private record Closing(Coordinator coordinator) implements Store.CloseableResource, AutoCloseable {
        @Override
        public void close() {
            coordinator.close();
        }
    }

    @Override
    public void afterEach(ExtensionContext context) {
        coordinator.post("/v1/clock", "frozen", false);
        var unfired = coordinator.delete("/v1/faults").get("unfired");
        if (!unfired.isEmpty() && context.getExecutionException().isEmpty()) {
            throw new AssertionError("never happened: " + unfired);
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Coordinator.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return coordinator;
    }
}
