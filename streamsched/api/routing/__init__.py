"""How a route is declared, and how a request comes to it."""
