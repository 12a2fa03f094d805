package caddymodule

// refusedScope holds the invalid forms of `scope`.
var refusedScope = refusedBlock{
	adapted: []refusal{
		{`scope`, `wrong argument count or unexpected line ending after 'scope', at Caddyfile:3`},
		{`scope a b c`, `wrong argument count or unexpected line ending after 'c', at Caddyfile:3`},
		{`scope "a b"`, `scope "a b": use one name of visible ASCII without quotes and backslashes, at Caddyfile:3`},
		{`scope a"b`, `scope "a\"b": use one name of visible ASCII without quotes and backslashes, at Caddyfile:3`},
		{"scope s\nscope s", `scope s is set twice, at Caddyfile:4`},
		{"scope s {\nnonsense\n}", `unknown scope option "nonsense", at Caddyfile:4`},
		{"scope s {\nserver_tokens yes\n}", `wrong argument count or unexpected line ending after 'yes', at Caddyfile:4`},
	},
	json: []refusal{
		{`"scopes":[{"name":"a b"}]`, `scope "a b": use one name`},
		{`"scopes":[{"name":"a"},{"name":"a"}]`, `scope "a" is declared twice`},
		{`"scopes":[{"name":"trusted","server_tokens":true}]`, `scope "trusted" acts for a user: a server token cannot hold it`},
	},
}
