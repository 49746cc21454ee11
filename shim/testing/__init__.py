"""A coordinator for tests, in the test's own process."""

from shim.testing.server import CoordinatorServer as CoordinatorServer
