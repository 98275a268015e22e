"""Events, values and states in words for people, and as JSON for programs; no terminal and no file is touched."""
