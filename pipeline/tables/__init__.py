"""The tables, as functions from DataFrames to DataFrames; `warehouse.py` reads and writes the files."""
