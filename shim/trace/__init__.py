"""The trace of a coordinator: its schema, a reader, and the groups, members and rebalances folded from its events."""
