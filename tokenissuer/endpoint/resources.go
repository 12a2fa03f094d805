package endpoint

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Resources serves the metadata of protected resources (RFC 9728), each at the URL that follows from its identifier.
type Resources struct {
	audit *Audit
	tally Tally
	// documents are by path. Of several with one path, the first is for hosts that none of them is for.
	documents map[string][]resourceDocument
}

type resourceDocument struct {
	host string // without the port, which proxies may change
	body []byte
}

// MetadataURL is where the metadata of a resource are: the well-known path stands between the host and the path of its
// identifier (RFC 9728 §3.1).
func MetadataURL(resource string) (*url.URL, error) {
	u, err := url.Parse(resource)
	if err != nil {
		return nil, err
	}
	if u.Host == "" || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q identifies no resource", resource)
	}
	path := u.EscapedPath()
	if path == "/" {
		path = ""
	}
	return url.Parse(u.Scheme + "://" + u.Host + wellKnownResource + path)
}

// NewResources returns what serves the metadata of these resources. Those that have no metadata URL are left out.
func NewResources(audit *Audit, tally Tally, resources []ResourceMetadata) *Resources {
	rs := &Resources{audit: audit, tally: tally, documents: make(map[string][]resourceDocument)}
	for _, resource := range resources {
		location, err := MetadataURL(resource.Resource)
		if err != nil {
			continue
		}
		body, err := resource.document()
		if err != nil { // a text that is not UTF-8
			continue
		}
		path := location.EscapedPath()
		rs.documents[path] = append(rs.documents[path], resourceDocument{location.Hostname(), body})
	}
	return rs
}

// IsResourceMetadata reports whether a request is for a path at which metadata of resources are, or would be, or which somebody
// behind us could read as one.
func IsResourceMetadata(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), wellKnownResource)
	if ok && (rest == "" || rest[0] == '/') {
		return true
	}
	return mayMention(r.URL, "oauth") && readingsOf(r.URL, func(read reading) bool { return read.isBelow(resourcePlace) })
}

var resourcePlace = readingOf(wellKnownResource)

// Has reports whether there are metadata at the path of a request.
func (rs *Resources) Has(r *http.Request) bool {
	return rs != nil && rs.documents[r.URL.EscapedPath()] != nil
}

// ServeHTTP answers a request for metadata.
func (rs *Resources) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin(w, r)
	if rs.Has(r) && shareWithAll(w, r, methodsGet) {
		return
	}
	if err := rs.serve(w, r); err != nil {
		rs.tally.Refused(metadataEndpoint, oauth.AsError(err))
		rs.audit.Refused(r, "endpoint request refused", err)
		writeOAuthJSON(w, setStatusHeaders(w, err), oauth.AsError(err))
	}
}

func (rs *Resources) serve(w http.ResponseWriter, r *http.Request) error {
	documents := rs.documents[r.URL.EscapedPath()]
	if len(documents) == 0 {
		return pathUnknown()
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return MethodNotAllowed(methodsGet)
	}
	found := documents[0]
	if i := slices.IndexFunc(documents, func(d resourceDocument) bool { return strings.EqualFold(d.host, hostname(r.Host)) }); i >= 0 {
		found = documents[i]
	}
	return writePublic(w, "application/json", found.body)
}

func pathUnknown() error {
	return httpError{status: http.StatusNotFound, err: oauth.NewError(notFound, "path_unknown").WithDescription("There is nothing at this path.")}
}

// hostname is a Host header without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
