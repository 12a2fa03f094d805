package coverage

// Route is a handler that answers from a backend, as the operator sees it.
type Route struct {
	Site string `json:"site"`
	// Paths are the patterns that a path must match, as clients send it; none: it may be any.
	Paths []string `json:"paths,omitzero"`
	// Match is all that is asked of a request on the way, but for the site's hosts.
	Match     []string `json:"match,omitzero"`
	Handler   string   `json:"handler"`
	Upstreams []string `json:"upstreams,omitzero"`
	// ErrorRoute: it is for requests that failed.
	ErrorRoute bool   `json:"error_route,omitzero"`
	Verdict    string `json:"verdict"`
	Why        string `json:"why,omitzero"`
	// Gates are the `protect` before it.
	Gates []Gate `json:"gates,omitzero"`
}

// Gate is a `protect` before a route, and what it asks for.
type Gate struct {
	// Source is where it stands in the Caddyfile, as file:line.
	Source string `json:"source,omitzero"`
	// Only says what makes requests pass beside it; none: it is for all that come to the route.
	Only      []string `json:"only,omitzero"`
	Issuers   []string `json:"issuers"`
	Audience  []string `json:"audience"`
	Scopes    []string `json:"scopes,omitzero"`
	Rules     []string `json:"rules,omitzero"`
	Anonymous []string `json:"anonymous,omitzero"`
	Optional  bool     `json:"optional,omitzero"`
	Resource  string   `json:"resource_metadata,omitzero"`
}
