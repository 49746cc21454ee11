"""The jobs: functions from tables to answers, which are small DataFrames. They read and write no files."""
