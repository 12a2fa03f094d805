package endpoint

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// IsFront reports whether a request is for the issuer's own address, as a person may type it.
func (h *Handler) IsFront(r *http.Request) bool {
	path := r.URL.EscapedPath()
	if r.Method != http.MethodGet && r.Method != http.MethodHead || path != h.prefix && path != h.prefix+"/" {
		return false
	}
	scheme, _, _ := strings.Cut(h.origin, "://")
	return oauth.OriginOf(&url.URL{Scheme: scheme, Host: r.Host}) == h.origin
}

// ServeFront shows the page of the issuer's own address. It asks for no session: the pages to which it leads do.
func (h *Handler) ServeFront(w http.ResponseWriter, r *http.Request) {
	begin(w, r)
	if err := h.show(w, r, http.StatusOK, "", pages.Front{AccountURL: h.prefix + accountPath, SignOutURL: h.prefix + logoutPath}); err != nil {
		h.Refuse(w, r, err)
	}
}
