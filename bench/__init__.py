"""Benchmarks of this project beside other implementations: `python -m bench`, or `make bench`."""
