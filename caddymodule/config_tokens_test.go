package caddymodule

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// refusedTokens holds the invalid forms of `tokens` and `password_grant`.
var refusedTokens = refusedBlock{
	adapted: []refusal{
		{`tokens x`, `wrong argument count or unexpected line ending after 'x', at Caddyfile:3`},
		{"tokens {\nclient_credentials\n}", `wrong argument count or unexpected line ending after 'client_credentials', at Caddyfile:4`},
		{"tokens {\nclient_credentials soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
		{"tokens {\nclient_credentials 1h 2h\n}", `wrong argument count or unexpected line ending after '2h', at Caddyfile:4`},
		{"tokens {\nclient_credentials 36d\n}", `token lifetime client_credentials 864h0m0s: use 1s to 35d, at Caddyfile:4`},
		{"tokens {\nclient_credentials 0s\n}", `token lifetime client_credentials 0s: use at least 1s, at Caddyfile:4`},
		{"tokens {\nclient_credentials -1h\n}", `token lifetime client_credentials -1h0m0s: use 1s to 35d, at Caddyfile:4`},
		{"tokens {\nclient_credentials 500ms\n}", `token lifetime client_credentials 500ms: use 1s to 35d, at Caddyfile:4`},
		{"tokens {\nclient_credentials 1h\nclient_credentials 2h\n}", `client_credentials is set twice, at Caddyfile:5`},
		{"tokens {\nnonsense 2h\n}", `unknown token lifetime "nonsense", at Caddyfile:4`},
		{"tokens {\nrefresh 401d\n}", `token lifetime refresh 9624h0m0s: use 1s to 400d, at Caddyfile:4`},
		{"tokens {\nrefresh 0\n}", `token lifetime refresh 0s: use at least 1s, at Caddyfile:4`},
		{"tokens {\nrefresh 90d\nrefresh 91d\n}", `refresh is set twice, at Caddyfile:5`},
		{"tokens {\nrefresh_idle 401d\n}", `token lifetime refresh_idle 9624h0m0s: use 1s to 400d, at Caddyfile:4`},
		{"tokens {\nrefresh_idle\n}", `wrong argument count or unexpected line ending after 'refresh_idle', at Caddyfile:4`},
		{"tokens {\nrefresh_grace 6m\n}", `token lifetime refresh_grace 6m0s: use 0 to 5m, at Caddyfile:4`},
		{"tokens {\nrefresh_grace -1s\n}", `token lifetime refresh_grace: use 0 to 5m, at Caddyfile:4`},
		{"tokens {\nrefresh_grace -1ns\n}", `token lifetime refresh_grace: use 0 to 5m, at Caddyfile:4`},
		{"tokens {\nrefresh_grace off\n}", `"off" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
		{"tokens {\nrefresh_grace 30s same\n}", `unknown option "same" of refresh_grace: use same_address, at Caddyfile:4`},
		{"tokens {\nrefresh_grace same_address\n}", `"same_address" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
		{"tokens {\nrefresh_grace 30s same_address more\n}", `wrong argument count or unexpected line ending after 'more', at Caddyfile:4`},
		{"tokens {\nrefresh_grace 0 same_address\n}", `token lifetime refresh_grace: 0 refuses every repeat, leave same_address out, at Caddyfile:4`},
		{"tokens {\nrefresh_grace 0\nrefresh_grace 30s\n}", `refresh_grace is set twice, at Caddyfile:5`},
		{"tokens {\ncode 11m\n}", `token lifetime code 11m0s: use 1s to 10m, at Caddyfile:4`},
		{"tokens {\ncode 500ms\n}", `token lifetime code 500ms: use 1s to 10m, at Caddyfile:4`},
		{`password_grant on`, `wrong argument count or unexpected line ending after 'on', at Caddyfile:3`},
		{"password_grant {\nnonsense\n}", `unknown password_grant option "nonsense", at Caddyfile:4`},
		{"password_grant {\nrefresh_tokens yes\n}", `wrong argument count or unexpected line ending after 'yes', at Caddyfile:4`},
		{"password_grant\npassword_grant", `password_grant is set twice, at Caddyfile:4`},
	},
	json: []refusal{
		{`"tokens":{"password":"36d"}`, "token lifetime password 864h0m0s: use 1s to 35d"},
		{`"tokens":{"password":-1}`, "token lifetime password -1ns: use 1s to 35d"},
		{`"tokens":{"refresh_grace":-1}`, "token lifetime refresh_grace: use 0 to 5m"},
		{`"tokens":{"refresh_grace":"6m"}`, "token lifetime refresh_grace 6m0s: use 0 to 5m"},
		{`"password_grant":{"refresh":true}`, `unknown field "refresh"`},
	},
}

// refusedSessions holds the invalid forms of `sessions`.
var refusedSessions = refusedBlock{
	adapted: []refusal{
		{`sessions 8h`, `wrong argument count or unexpected line ending after '8h', at Caddyfile:3`},
		{"sessions {\nidle\n}", `wrong argument count or unexpected line ending after 'idle', at Caddyfile:4`},
		{"sessions {\nidle soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
		{"sessions {\nidle 0\n}", `sessions idle 0s: use 10m to 400d, at Caddyfile:4`},
		{"sessions {\nidle 599s\n}", `sessions idle 9m59s: use 10m to 400d, at Caddyfile:4`},
		{"sessions {\nmax -1h\n}", `sessions max -1h0m0s: use 10m to 400d, at Caddyfile:4`},
		{"sessions {\nmax 401d\n}", `sessions max 9624h0m0s: use 10m to 400d, at Caddyfile:4`},
		{"sessions {\nidle 8h\nidle 9h\n}", `idle is set twice, at Caddyfile:5`},
		{"sessions {\nlongest 8h\n}", `unknown sessions option "longest", at Caddyfile:4`},
		{"sessions {\n}\nsessions {\n}", `sessions is set twice, at Caddyfile:5`},
	},
	loaded: []namedRefusal{
		{"idle longer than max", "sessions {\nidle 9h\nmax 8h\n}", "sessions idle 9h0m0s: no session lives longer than max, which is 8h0m0s"},
		{"idle longer than the default of max", "sessions {\nidle 31d\n}", "sessions idle 744h0m0s: no session lives longer than max, which is 720h0m0s"},
	},
	json: []refusal{
		{`"sessions":{"idle":-1}`, "sessions idle -1ns: use 10m to 400d"},
		{`"sessions":{"max":"401d"}`, "sessions max 9624h0m0s: use 10m to 400d"},
		{`"sessions":{"longest":"8h"}`, `unknown field "longest"`},
	},
}

// TestReadGrace checks that 0 turns the grace off and that an absent setting keeps the default.
func TestReadGrace(t *testing.T) {
	for _, test := range []struct {
		name, members string
		want          time.Duration
	}{
		{"nothing", ``, 30 * time.Second},
		{"no grace among tokens", `,"tokens":{"refresh":"1d"}`, 30 * time.Second},
		{"off", `,"tokens":{"refresh_grace":0}`, store.NoGrace},
		{"off as text", `,"tokens":{"refresh_grace":"0s"}`, store.NoGrace},
		{"longer", `,"tokens":{"refresh_grace":"5m"}`, 5 * time.Minute},
	} {
		if got := readMembers(t, test.members).Issuer.Lifetimes.RefreshGrace; got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	s := readMembers(t, `,"tokens":{"refresh_grace":"1m"},"clients":[{"id":"a","type":"public","tokens":{"refresh_grace":0,"code":"10s"}},{"id":"b","type":"public"}]`)
	for id, want := range map[string]store.Lifetimes{"a": {RefreshGrace: store.NoGrace, Code: 10 * time.Second}, "b": {}} {
		client, err := s.Issuer.Declared.Client(t.Context(), id)
		if err != nil || client.Lifetimes != want {
			t.Errorf("client %s has %+v, %v", id, client.Lifetimes, err)
		}
	}
}

func TestReadPasswordGrant(t *testing.T) {
	for members, want := range map[string]*issuer.PasswordRules{
		``: nil, `,"password_grant":{}`: {}, `,"password_grant":{"refresh_tokens":true}`: {Refresh: true},
	} {
		app := new(App)
		if err := json.Unmarshal([]byte(`{"issuer":"https://a.example"`+members+`}`), app); err != nil || !reflect.DeepEqual(app.PasswordGrant, want) {
			t.Errorf("%s: %+v, %v", members, app.PasswordGrant, err)
		}
	}
}
