"""One module per command: its declaration and its function. A command parses, calls the store, returns an Answer."""
