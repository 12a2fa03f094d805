package coverage

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// OperatorConsole is an `oauth_console`.
type OperatorConsole interface {
	caddyhttp.MiddlewareHandler
	// ConsoleAt returns its position in the Caddyfile, as file:line; empty: it has none.
	ConsoleAt() string
}

// consoleWarnings warns of a console that no site serves, and of one whose origin has other pages: their scripts could act for the operator.
func (i *Issuer) consoleWarnings(sites []*site) (list []string) {
	if i == nil || !i.HasConsole {
		return nil
	}
	issuer, err := url.Parse(i.URL)
	if err != nil {
		return nil
	}
	served := false
	for _, s := range sites {
		for _, source := range s.consoles {
			served = true
			if what := s.besideConsole(sites, issuer.Hostname()); what != "" {
				list = append(list, at(source)+"oauth_console is at a host with "+what+", whose scripts could act for the operator: give the console a host of its own, "+
					"as https://admin.example.com")
			}
		}
	}
	if !served {
		list = append(list, at(i.ConsoleSource)+"no site has oauth_console, so nobody can open the console: add `oauth_console` to a site of its own")
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// besideConsole returns what else the origins of a site with a console have: an application, files, or the issuer; empty: nothing.
func (s *site) besideConsole(sites []*site, issuer string) string {
	for _, other := range sites {
		sharesHost := slices.ContainsFunc(s.hosts, other.mayHave) || slices.ContainsFunc(other.hosts, s.mayHave) || len(s.hosts) == 0 && len(other.hosts) == 0
		if other.scheme != s.scheme || other.port != s.port || !sharesHost || len(other.hosts) == 0 && len(s.hosts) > 0 {
			continue // a site without hosts has none of those of other sites
		}
		for i := range other.backends {
			if b := &other.backends[i]; b.kind != forwardAuth {
				return fmt.Sprint(b)
			}
		}
		if len(other.servers) > 0 && other.mayHave(issuer) {
			return "the issuer"
		}
	}
	return ""
}
