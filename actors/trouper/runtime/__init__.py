"""The shell: actors that carry decisions out."""
