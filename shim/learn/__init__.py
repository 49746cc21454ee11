"""Lessons on rebalances: scenes on the simulator, a question before each step, and claims checked against the trace."""
