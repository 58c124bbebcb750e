"""How this package stands in for Orbax: names, classes and errors."""
