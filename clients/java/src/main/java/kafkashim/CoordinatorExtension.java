package kafkashim;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * A coordinator for the tests of a class: register it as a static field, and take a {@link Coordinator} as a parameter.
 * After each test the clock goes on, and a test fails if a fault that it added was not used.
 */
public final class CoordinatorExtension
        implements BeforeAllCallback, AfterEachCallback, ParameterResolver {
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
