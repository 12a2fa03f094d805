package coverage

// Route is a handler that answers from a backend, as the operator sees it.
type Route struct {
	Site string `json:"site"`
	// Paths are the patterns that a client's path must match; none: any path.
	Paths []string `json:"paths,omitzero"`
	// Match is everything that a request must match, except the site's hosts.
	Match     []string `json:"match,omitzero"`
	Handler   string   `json:"handler"`
	Upstreams []string `json:"upstreams,omitzero"`
	// ErrorRoute reports that it handles requests that failed.
	ErrorRoute bool   `json:"error_route,omitzero"`
	Verdict    string `json:"verdict"`
	Why        string `json:"why,omitzero"`
	// Gates are the `protect` handlers before it.
	Gates []Gate `json:"gates,omitzero"`
}

// Gate is a `protect` before a route, with its requirements.
type Gate struct {
	// Source is its position in the Caddyfile, as file:line.
	Source string `json:"source,omitzero"`
	// Only lists the conditions of the requests that the gate checks; none: all that reach the route.
	Only      []string `json:"only,omitzero"`
	Issuers   []string `json:"issuers"`
	Audience  []string `json:"audience"`
	Scopes    []string `json:"scopes,omitzero"`
	Rules     []string `json:"rules,omitzero"`
	Anonymous []string `json:"anonymous,omitzero"`
	Optional  bool     `json:"optional,omitzero"`
	Resource  string   `json:"resource_metadata,omitzero"`
	// MCP reports that the route is a server of the Model Context Protocol. Tools are its rules for tools.
	MCP   bool     `json:"mcp,omitzero"`
	Tools []string `json:"tools,omitzero"`
}
