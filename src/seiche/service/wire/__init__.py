"""The service as gRPC sees it: ports, calls, messages and statuses."""
