"""Makes test data of any volume: traces, segments, and a list of the faults put into them.

A model of its own, so that the pipeline is checked against something that does not share its mistakes: `model.py` plays
the life of one group, `rounds.py` its work, `telling.py` what `docs/trace.md` says of them; `faults.py` says what goes
wrong, `write.py` merges groups into files. It knows neither Spark nor the coordinator.
"""
