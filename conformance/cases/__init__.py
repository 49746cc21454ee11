"""The cases, one module per area. Importing a module registers its cases."""
