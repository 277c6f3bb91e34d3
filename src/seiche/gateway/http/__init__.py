"""What both HTTP gateways share: calls, limits, who is calling, and documents that describe the routes."""
