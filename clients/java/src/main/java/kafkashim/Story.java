package kafkashim;

/** The story of a failed test: what its coordinator saw, and the path of the trace. */
public final class Story extends Throwable {
    private static final long serialVersionUID = 1L;

    Story(String message) {
        super(message, null, false, false);
    }
}
