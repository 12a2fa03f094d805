package caddymodule

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
)

const (
	loginUsage  = "write limits as `login 10/1m per account` and `login 30/1m per ip`, or as `login off`, at Caddyfile:4"
	clientUsage = "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"
)

// refusedLimits holds the invalid forms of `limits` and `revocation`.
var refusedLimits = refusedBlock{
	adapted: []refusal{
		{`revocation x`, `wrong argument count or unexpected line ending after 'x', at Caddyfile:3`},
		{"revocation {\nmax_staleness 1s\n}", `max_staleness 1s: use at least 2s, for the store is read once a second, at Caddyfile:4`},
		{"revocation {\nmax_staleness soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:4`},
		{"revocation {\nmax_staleness\n}", `wrong argument count or unexpected line ending after 'max_staleness', at Caddyfile:4`},
		{"revocation {\nmax_staleness 5m\nmax_staleness 6m\n}", `max_staleness is set twice, at Caddyfile:5`},
		{"revocation {\nnonsense\n}", `unknown revocation option "nonsense", at Caddyfile:4`},
		{`limits x`, `wrong argument count or unexpected line ending after 'x', at Caddyfile:3`},
		{"limits {\nclient\n}", "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"},
		{"limits {\nclient 20\n}", "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"},
		{"limits {\nclient 20/1m per account\n}", "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"},
		{"limits {\nclient x/1m per ip\n}", `"x" is no number, at Caddyfile:4`},
		{"limits {\nclient 0/1m per ip\n}", `"0" is no number, at Caddyfile:4`},
		{"limits {\nclient 20/x per ip\n}", `"x" is no window: write it as 30s, 1m or 1h, at Caddyfile:4`},
		{"limits {\nclient 20/10ms per ip\n}", `"10ms" is no window: write it as 30s, 1m or 1h, at Caddyfile:4`},
		{"limits {\nclient 20 per ip\n}", "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"},
		{"limits {\nclient on\n}", "write a limit as `client 20/1m per ip`, or as `client off`, at Caddyfile:4"},
		{"limits {\nclient off\nclient 20/1m per ip\n}", `limits client is set twice, at Caddyfile:5`},
		{"limits {\nnonsense 10/1m per account\n}", `unknown limit "nonsense", at Caddyfile:4`},
		{"limits {\nlogin\n}", loginUsage},
		{"limits {\nlogin 10/1m\n}", loginUsage},
		{"limits {\nlogin 10/1m per client\n}", loginUsage},
		{"limits {\nlogin 10/1m for account\n}", loginUsage},
		{"limits {\nlogin 10 per account\n}", loginUsage},
		{"limits {\nlogin off per account\n}", loginUsage},
		{"limits {\nclient 10/1m per account\n}", clientUsage},
		{"limits {\nlogin 0/1m per account\n}", `"0" is no number, at Caddyfile:4`},
		{"limits {\nlogin 10/1ms per ip\n}", `"1ms" is no window: write it as 30s, 1m or 1h, at Caddyfile:4`},
		{"limits {\nlogin 10/1m per account\nlogin 11/1m per account\n}", `limits login per account is set twice, at Caddyfile:5`},
		{"limits {\nlogin 10/1m per ip\nlogin 11/1m per ip\n}", `limits login per ip is set twice, at Caddyfile:5`},
		{"limits {\nlogin 10/1m per ip\nlogin off\n}", `limits login per ip is set twice, at Caddyfile:5`},
		{"limits {\nlogin off\nlogin 10/1m per account\n}", `limits login per account is set twice, at Caddyfile:5`},
		{"limits {\ngrants 60/1m per client\n}", "write a limit as `grants 60/1m per user`, or as `grants off`, at Caddyfile:4"},
		{"limits {\nrevocations 60/1m per user\n}", "write a limit as `revocations 60/1m per client`, or as `revocations off`, at Caddyfile:4"},
		{"limits {\ngrants off\ngrants 60/1m per user\n}", "limits grants is set twice, at Caddyfile:5"},
		{"limits {\nlogin off\nlogin off\n}", `limits login per account is set twice, at Caddyfile:5`},
	},
	json: []refusal{
		{`"limits":{"login_account":{"failures":-1}}`, "limits login_account: use a number"},
		{`"limits":{"login_ip":{"failures":1,"window":"10ms"}}`, "limits login_ip: use a number"},
		{`"revocation":{"max_staleness":"1s"}`, "max_staleness: use at least 2s"},
		{`"limits":{"client":{"failures":-1}}`, "limits client: "},
		{`"limits":{"client":{"failures":1}}`, "limits client: "},
	},
}

func TestReadLimits(t *testing.T) {
	perMinute := func(n int) attempts.Limit { return attempts.Limit{Failures: n, Window: time.Minute} }
	none := attempts.Limit{}
	for _, test := range []struct {
		name, members            string
		client, account, address attempts.Limit
	}{
		{"nothing", ``, perMinute(20), perMinute(10), perMinute(30)},
		{"account alone", `,"limits":{"login_account":{"failures":3,"window":"1m"}}`, perMinute(20), perMinute(3), perMinute(30)},
		{"address alone", `,"limits":{"login_ip":{"failures":3,"window":"1m"}}`, perMinute(20), perMinute(10), perMinute(3)},
		{"logins off", `,"limits":{"login_account":{"off":true},"login_ip":{"off":true}}`, perMinute(20), none, none},
		{"clients off", `,"limits":{"client":{"off":true}}`, none, perMinute(10), perMinute(30)},
	} {
		s := readMembers(t, test.members)
		if s.Limits.ClientLimit != test.client || s.Limits.AccountLimit != test.account || s.Limits.AddressLimit != test.address {
			t.Errorf("%s: %v, %v, %v", test.name, s.Limits.ClientLimit, s.Limits.AccountLimit, s.Limits.AddressLimit)
		}
	}
}
