"""`__consumer_offsets` as a source of events, for groups without a server or relay of ours.

`settings.py` reads Kafka's client settings, `connection.py` and `cluster.py` read the topic from brokers, `files.py`
from segment files. `content.py` tells holes and transactions, `snapshots.py` and `epochs.py` turn records into events,
and `together.py` merges these with the events of logs.
"""
