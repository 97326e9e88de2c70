//! Pincer as an MCP server.
