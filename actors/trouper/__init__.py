"""A durable runtime for LLM agents on Trio."""
