"""Simulations of the designs that Kafka considered for group membership: the cost and the failures of each.

`messages.py` has the messages, `world.py` time and network, `eager.py` and `reconciling.py` the protocols,
`scenarios.py` the events, `report.py` the tables and plots. Nothing here serves a request.
"""
