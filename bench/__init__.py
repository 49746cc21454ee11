"""How fast ours is beside others: `python -m bench`, or `make bench`."""
