"""`kafka-shim trace record`: a relay in front of a real cluster that writes a trace of its groups.

Bytes pass unchanged; only the addresses of brokers are replaced, so that clients connect through the relay.
It makes the events that others fold (`shim/trace/history.py`), and keeps a state of its own: a request changes it
before any event is known, and a later answer may withdraw its cause. It reads no event again.
"""
