"""Client cases: one unmodified client at a time against a coordinator that goes wrong by plan."""
