"""A generator of test data of any volume: traces, segments, and a list of the faults in them.

It models groups independently of the coordinator, so that the pipeline is tested against a model without the
coordinator's mistakes. `schedule.py` decides when things happen to any group; `classic_group.py` and `rounds.py` model
classic groups; `epoch_group.py`, `epochs.py` and `heartbeats.py` consumer, share and streams groups; `trace_events.py`
builds the events of `docs/trace.md`; `faults.py` defines the faults; `write.py` merges groups into files.
"""
