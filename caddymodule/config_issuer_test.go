package caddymodule

// refusedIssuer holds the invalid forms of `issuer` and `audience`, and options that no block has.
var refusedIssuer = refusedBlock{
	adapted: []refusal{
		{`nonsense`, `unknown oauth option "nonsense", at Caddyfile:3`},
		{`issuer`, `wrong argument count or unexpected line ending after 'issuer', at Caddyfile:3`},
		{`issuer a b`, `wrong argument count or unexpected line ending after 'a', at Caddyfile:3`},
		{`issuer https://b.example`, `issuer is set twice, at Caddyfile:4`},
		{`issuer http://api.example.com`, `issuer "http://api.example.com" must be https: plain http is for loopback hosts only, at Caddyfile:3`},
		{`issuer https://a.example/`, `issuer "https://a.example/" must have no query, no fragment, no credentials and no trailing slash, at Caddyfile:3`},
		{`issuer https://a.example?x=1`, `issuer "https://a.example?x=1" must have no query, no fragment, no credentials and no trailing slash, at Caddyfile:3`},
		{`issuer https://a.example#f`, `issuer "https://a.example#f" must have no query, no fragment, no credentials and no trailing slash, at Caddyfile:3`},
		{`issuer https://u:p@a.example`, `issuer "https://u:p@a.example" must have no query, no fragment, no credentials and no trailing slash, at Caddyfile:3`},
		{`issuer api.example.com`, `issuer "api.example.com" is no URL: write it as https://api.example.com, at Caddyfile:3`},
		{`issuer ftp://a.example`, `issuer "ftp://a.example" must be https: plain http is for loopback hosts only, at Caddyfile:3`},
		{`issuer {http.request.host}`, `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
		{`issuer ""`, `the value is empty; is a variable unset?, at Caddyfile:3`},
		{`audience`, `wrong argument count or unexpected line ending after 'audience', at Caddyfile:3`},
		{`audience ""`, `an audience must not be empty, at Caddyfile:3`},
		{`audience {http.request.host}`, `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
		{`audience https://a.example {http.vars.x}`, `{http.vars.x} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
	},
	loaded: []namedRefusal{
		{"audience unset", "audience {env.GATEHOUSE_TEST_UNSET}", "audience: "},
	},
	json: []refusal{
		{`"audience":[""]`, "audience is missing"},
		{`"audience":["{http.request.host}"]`, "comes from the request"},
		{`"clint":[]`, `unknown field "clint"`},
	},
}
