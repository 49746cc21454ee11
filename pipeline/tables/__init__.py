"""The tables, as functions from DataFrames to DataFrames. None of them reads or writes files; `warehouse.py` does."""
