"""APIs about users of SCRAM, which a server has only where a listener has SCRAM. So they are not in the registry."""
