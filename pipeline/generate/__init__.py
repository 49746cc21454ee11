"""Makes test data of any volume: traces, segments, and a list of the faults put into them.

A model of its own, so that the pipeline is checked against something that does not share its mistakes: `life.py` has
the life of any group; `model.py` what befalls a classic one, `rounds.py` its work; `epoch_model.py`, `epochs.py` and
`heartbeats.py` the same of consumer, share and streams groups; `telling.py` what `docs/trace.md` says of them;
`faults.py` says what goes wrong, `write.py` merges groups into files. It knows neither Spark nor the coordinator.
"""
