"""The operations of the control API, a module for each subject; `api.py` collects them."""
