"""How this package replaces Orbax: names, classes and errors."""
