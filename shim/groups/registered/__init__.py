"""An experiment: groups whose consumers register with a controller that assigns, as the Client Rewrite proposed before
Kafka 0.9. Without `--experimental designs` a coordinator does not import it. docs/designs.md.
"""
