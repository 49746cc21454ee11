"""Client cases: one unmodified client at a time against a coordinator whose answers go wrong by plan."""
