package gate

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/browser"
)

// page returns the handler that answers a refused navigation or form with a page; nil: the request gets the answer for programs,
// which send their tokens in a header.
func (b *hostSignIn) page(r *http.Request, d *decision, status int, refusal error) caddyhttp.HandlerFunc {
	form := isForm(r)
	if !b.enabled || !form && !isNavigation(r) || r.Header["Authorization"] != nil {
		return nil
	}
	pages := b.tokens.shared.hosts.Pages
	switch {
	case form && b.isForeign(r, d, status):
		return func(w http.ResponseWriter, r *http.Request) error {
			pages.ServeForeign(w, r, status)
			return nil
		}
	case form && status == http.StatusUnauthorized && d.token == nil:
		return func(w http.ResponseWriter, r *http.Request) error {
			pages.ServeInterrupted(w, r, status)
			return nil
		}
	case status == http.StatusForbidden && d.verified && d.shown.host.Authority != "":
		address := "/" // a form cannot be sent again by a link
		if u, err := originalAddress(r); err == nil && !form {
			address = u.RequestURI()
		}
		return func(w http.ResponseWriter, r *http.Request) error {
			pages.ServeDenied(w, r, d.token, address)
			return nil
		}
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		pages.ServeProblem(w, r, status, refusal)
		return nil
	}
}

// isForeign reports whether a form was refused because a page of another site sent it. Browsers omit our cookies from most of these,
// so that they look like forms without a session.
func (b *hostSignIn) isForeign(r *http.Request, d *decision, status int) bool {
	if status == http.StatusForbidden {
		return d.token == nil
	}
	if status != http.StatusUnauthorized {
		return false
	}
	if site := r.Header["Sec-Fetch-Site"]; len(site) > 0 {
		return slices.Contains(site, "cross-site") || slices.Contains(site, "same-site")
	}
	host, ok := b.tokens.shared.hosts.Find(r)
	return ok && len(r.Header["Origin"]) > 0 && !browser.IsSameOrigin(r, host)
}
