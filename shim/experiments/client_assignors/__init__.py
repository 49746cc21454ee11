"""An experiment: consumer groups with members that compute the target assignment, as in the draft of KIP-848.

No release of Kafka has it, and a coordinator imports it only with `--experimental client-assignors`. See
docs/client-assignors.md.
"""
