package endpoint

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// IsFront reports whether a request is for the issuer's own address, as a user may type it.
func (h *Handler) IsFront(r *http.Request) bool {
	path := r.URL.EscapedPath()
	if r.Method != http.MethodGet && r.Method != http.MethodHead || path != h.site.prefix && path != h.site.prefix+"/" {
		return false
	}
	scheme, _, _ := strings.Cut(h.site.origin, "://")
	return oauth.OriginOf(&url.URL{Scheme: scheme, Host: r.Host}) == h.site.origin
}

// ServeFront serves the page at the issuer's own address. It needs no session; the pages that it links to do.
func (h *Handler) ServeFront(w http.ResponseWriter, r *http.Request) {
	begin(w, r)
	if err := h.browser.show(w, r, http.StatusOK, "", pages.Front{AccountURL: h.site.prefix + accountPath, SignOutURL: h.site.prefix + logoutPath}); err != nil {
		h.browser.refuseJSON(w, r, err)
	}
}
