"""`kafka-shim trace record`: a relay in front of a real cluster that writes a trace of its groups.

Bytes pass unchanged; only the addresses of brokers are replaced, so that clients connect through the relay.
"""
