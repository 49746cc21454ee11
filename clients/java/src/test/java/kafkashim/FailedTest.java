package kafkashim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;

final class FailedTest {
    /** Takes the failure of the test, after the extension of the package. */
    static final class Expected implements TestExecutionExceptionHandler {
        @Override
        public void handleTestExecutionException(ExtensionContext context, Throwable failure) throws Throwable {
            assertEquals("on purpose", failure.getMessage());
            String story = failure.getSuppressed()[0].toString();
            assertTrue(story.startsWith("kafkashim.Story: the story of the test\n"), story);
            assertTrue(story.contains("teller joins"), story);
            Path trace = Path.of(story.substring(story.lastIndexOf("The trace: ") + "The trace: ".length()));
            assertTrue(Files.readString(trace).contains("\"client_id\":\"teller\""), story);
            Files.delete(trace);
        }
    }

    @RegisterExtension
    @Order(1)
    static final Expected EXPECTED = new Expected();

    @RegisterExtension
    @Order(2)
    static final CoordinatorExtension SHIM = new CoordinatorExtension("--topic", "orders:4");

    @Test
    void aFailureHasTheStoryAndTheTrace(Coordinator shim) {
        shim.puppet("billing", List.of("orders"), "client_id", "teller");
        shim.await("billing", "stable", "members", 1);
        fail("on purpose");
    }
}
