"""An experiment: a consumer group whose members compute its target assignment, as KIP-848 first had it. No release of
Kafka has this. Without `--experimental client-assignors` a coordinator does not import it. docs/client-assignors.md.
"""
