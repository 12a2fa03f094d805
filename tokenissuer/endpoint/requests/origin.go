package requests

import "net/http"

// ProvesOrigin reports whether Sec-Fetch-Site and Origin prove that a page of one of our origins sent the request. Pages cannot forge these
// headers. Absent or contradictory headers prove nothing. A page with the policy no-referrer sends the Origin null; then Sec-Fetch-Site
// decides.
func ProvesOrigin(r *http.Request, isOurs func(origin string) bool) bool {
	site, origin := r.Header["Sec-Fetch-Site"], r.Header["Origin"]
	if len(site) > 1 || len(origin) > 1 {
		return false
	}
	sameOrigin := len(site) == 1 && site[0] == "same-origin"
	switch {
	case len(site) == 1 && !sameOrigin:
		return false
	case len(origin) == 0 || origin[0] == "null":
		return sameOrigin
	}
	return isOurs(origin[0])
}
