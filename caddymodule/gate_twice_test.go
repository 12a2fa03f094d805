package caddymodule

import (
	"net/http"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
)

// TestG149TwoGatesOnAWay: the second gate sees a token that the first one has verified in the Authorization header, and its
// `upstream_token` counts. Anything else stays with the first gate, and the second refuses.
func TestG149TwoGatesOnAWay(t *testing.T) {
	g := startGate(t, siteWith("", `	handle /relay/* {
		route {
			protect
			protect {
				upstream_token relay
			}
			reverse_proxy UPSTREAM
		}
	}
	handle /strip/* {
		route {
			protect {
				upstream_token relay
			}
			protect
			reverse_proxy UPSTREAM
		}
	}
	handle /optional/* {
		route {
			protect {
				optional
			}
			protect
			reverse_proxy UPSTREAM
		}
	}
	handle /anonymous/* {
		route {
			protect {
				anonymous /anonymous/*
			}
			protect
			reverse_proxy UPSTREAM
		}
	}
	handle /cookie/* {
		route {
			protect {
				token_from cookie app_token
			}
			protect {
				token_from cookie app_token
			}
			reverse_proxy UPSTREAM
		}
	}
	handle /swap/* {
		route {
			protect {
				upstream_token swap https://orders.example
			}
			protect
			reverse_proxy UPSTREAM
		}
	}
	handle /swapped/* {
		route {
			protect {
				upstream_token swap https://orders.example
			}
			protect {
				audience https://orders.example
			}
			reverse_proxy UPSTREAM
		}
	}`))
	token := g.server("public")
	header, cookie := bearer(token), "Cookie: app_token="+token
	for name, test := range map[string]struct {
		target, credential string
		want               int
		relayed            []string
	}{
		"the second relays":                         {"/relay/x", header, 200, []string{"Bearer " + token}},
		"the second strips":                         {"/strip/x", header, 200, nil},
		"the first is optional":                     {"/optional/x", header, 200, nil},
		"the first looks at no token":               {"/anonymous/x", header, 401, nil},
		"the first takes it from a cookie":          {"/cookie/x", cookie, 401, nil},
		"the first could take a cookie":             {"/cookie/x", header, 200, nil},
		"the first swaps":                           {"/swap/x", header, 401, nil},
		"the first swaps for the second's audience": {"/swapped/x", header, 200, nil},
		"a bad token":                               {"/optional/x", bearer("bad"), 401, nil},
		"no token":                                  {"/optional/x", "X-None: 1", 401, nil},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, body := g.raw(g.request("GET", test.target, test.credential))
			if status != test.want {
				t.Fatalf("%d %s, want %d", status, body, test.want)
			}
			if status != http.StatusOK {
				g.upstream.none(t)
				return
			}
			seen := g.upstream.one(t)
			seen.has(t, "Authorization", test.relayed...).has(t, identity.Subject, "conf")
		})
	}
}
