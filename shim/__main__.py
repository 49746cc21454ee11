"""`python -m shim` is `kafka-shim`."""

from shim.cli import main

if __name__ == "__main__":
    main()
