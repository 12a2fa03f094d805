package gate

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func errorCode(err error) oauth.ErrorCode { return oauth.AsError(err).Code }

// originalAddress returns path and query of a request as the client sent them, without rewrites and without a token in the query.
func originalAddress(r *http.Request) (*url.URL, error) {
	address := *r.URL
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		address = *withPath(&original).URL
	}
	address.RawQuery = requests.WithoutQueryToken(address.RawQuery)
	if !strings.HasPrefix(address.RequestURI(), "/") {
		return nil, errors.New("the request has no path to come back to")
	}
	return &address, nil
}

// isNavigation reports whether a browser requests a page to display. Current browsers say so in Sec-Fetch headers; for
// others, Accept decides. A page in a frame does not count: the sign-in page cannot be framed.
func isNavigation(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || isUpgrade(r) {
		return false
	}
	return showsPage(r)
}

// showsPage reports whether a browser shows the answer to a request.
func showsPage(r *http.Request) bool {
	mode := r.Header["Sec-Fetch-Mode"]
	if len(mode)+len(r.Header["Sec-Fetch-Dest"])+len(r.Header["Sec-Fetch-Site"]) == 0 {
		return slices.ContainsFunc(r.Header["Accept"], namesHTML)
	}
	return len(mode) > 0 && requests.IsNavigation(r)
}

// namesHTML reports whether a line of Accept names text/html itself. Programs accept anything, or what they parse.
func namesHTML(line string) bool {
	for element := range strings.SplitSeq(line, ",") {
		media, _, _ := strings.Cut(element, ";")
		if strings.EqualFold(strings.TrimSpace(media), "text/html") {
			return true
		}
	}
	return false
}
