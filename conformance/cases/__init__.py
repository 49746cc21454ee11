"""The cases, a module per area. Importing a module registers its cases."""
