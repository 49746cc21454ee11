"""Mutation tests: the suite runs on our coordinator with one wrong rule at a time, and a case must fail."""
