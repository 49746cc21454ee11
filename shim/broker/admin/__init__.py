"""Requests of administrators: topics, settings, features, quotas, ACLs, and views of the cluster."""
