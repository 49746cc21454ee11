"""What the control API does, a module for each thing it does it to; `api.py` gathers them."""
