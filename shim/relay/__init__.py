"""`kafka-shim trace record`: an extra hop in front of a real cluster that writes down what its groups do.

Bytes pass as they are; only the addresses of brokers are changed, so that clients come back through the relay.
"""
