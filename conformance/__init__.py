"""What any group coordinator gets wrong, case by case, with the bytes to prove it.

A case is a function with a stable id that plays scripted members against a target over plain sockets; the runner
gives each cell (case, version) a verdict and compares it with what is expected of that target. Real Apache Kafka is
the oracle: where it disagrees with a case, the case is wrong.
"""
