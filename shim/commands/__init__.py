"""Commands of the command line that start no server, one module each."""
