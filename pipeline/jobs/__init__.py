"""The questions, as functions from tables to small DataFrames. None of them reads or writes files."""
