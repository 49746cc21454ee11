"""Differential mode: plays one random script on two targets, and reports the first different answer."""
