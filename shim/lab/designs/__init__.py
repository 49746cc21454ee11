"""The designs that Kafka weighed for the membership of groups, each simulated: what it costs and how it breaks.

`messages.py` has the bytes, `world.py` time and the network, `eager.py` and `reconciling.py` the protocols,
`scenarios.py` what happens to a group, `report.py` the tables and plots. Nothing here serves a request.
"""
