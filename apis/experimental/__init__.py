"""Messages of proposals that were never released, one module per API as in `apis/`. Only experiments import them."""
