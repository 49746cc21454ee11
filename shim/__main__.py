"""`python -m kafka_shim` is `kafka-shim`."""

from kafka_shim.cli import main

if __name__ == "__main__":
    main()
