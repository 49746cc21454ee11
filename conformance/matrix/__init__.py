"""`kafka-shim conformance matrix`: all targets and clients in one run, as data, as a page, and in the README."""
