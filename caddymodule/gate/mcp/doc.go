// Package mcp is what `protect` knows of the Model Context Protocol: which tools a request calls (request.go, with the reader of
// JSON-RPC in message.go), which rules those have (tools.go), and how a refusal looks to a client that speaks JSON-RPC
// (refusal.go). An upstream gets the bytes that the client has sent.
package mcp
