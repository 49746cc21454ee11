"""Messages that were proposed and never released, one module per API as in `apis/`. Only experiments import them."""
