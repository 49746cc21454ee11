"""Differential mode: one random script on two targets, and the first thing they say differently."""
