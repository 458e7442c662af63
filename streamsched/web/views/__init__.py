"""Pure functions from values to what pages show. What they return as `Markup` is escaped."""
