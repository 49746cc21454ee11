"""Commands of the command line that need no server, a module each."""
