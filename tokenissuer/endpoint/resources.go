package endpoint

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// WellKnownResource is the path prefix of the metadata of a host's resources (RFC 9728 §3).
const WellKnownResource = "/.well-known/oauth-protected-resource"

// Resources serves the metadata of protected resources (RFC 9728), each at the URL derived from its identifier.
type Resources struct {
	audit    *Audit
	counters Counters
	// documents are keyed by path. If several have the same path, the first is the default for other hosts.
	documents map[string][]resourceDocument
}

type resourceDocument struct {
	host     string // without the port, which proxies may change
	resource ResourceMetadata
	body     []byte // nil if the host contains a *; the document is then made for the host of each request
}

// MetadataURL returns the URL of a resource's metadata: the identifier with the well-known path inserted before its path (RFC 9728 §3.1).
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
	return url.Parse(u.Scheme + "://" + u.Host + WellKnownResource + path)
}

// NewResources returns a handler for the metadata of these resources. It skips those without a valid metadata URL.
func NewResources(audit *Audit, counters Counters, resources []ResourceMetadata) *Resources {
	rs := &Resources{audit: audit, counters: counters, documents: make(map[string][]resourceDocument)}
	for _, resource := range resources {
		location, err := MetadataURL(resource.Resource)
		if err != nil {
			continue
		}
		path := strings.TrimSuffix(location.EscapedPath(), "/")
		if !rs.add(path, location.Hostname(), resource) {
			continue
		}
		if resource.AtRoot && path != WellKnownResource {
			rs.add(WellKnownResource, location.Hostname(), resource)
		}
	}
	return rs
}

// add adds a document at a path, and one at the path with a trailing slash, because clients compare the identifier with the URL that they
// know byte for byte. It returns false if a text is not UTF-8.
func (rs *Resources) add(path, host string, resource ResourceMetadata) bool {
	for _, slash := range []string{"", "/"} {
		resource.Resource = strings.TrimSuffix(resource.Resource, "/") + slash
		document := resourceDocument{host: host, resource: resource}
		if !strings.Contains(host, "*") {
			var err error
			if document.body, err = resource.document(); err != nil {
				return false
			}
		}
		rs.documents[path+slash] = append(rs.documents[path+slash], document)
	}
	return true
}

// IsResourceMetadataPath reports whether a path is the well-known path of resource metadata or below it.
func IsResourceMetadataPath(path string) bool {
	rest, ok := strings.CutPrefix(path, WellKnownResource)
	return ok && (rest == "" || rest[0] == '/')
}

// IsResourceMetadata reports whether a request is for the well-known path of resource metadata, or for a path that an upstream could read
// as one.
func IsResourceMetadata(r *http.Request) bool {
	if IsResourceMetadataPath(r.URL.EscapedPath()) {
		return true
	}
	return requests.MayMention(r.URL, "oauth") && requests.PathReadings(r.URL, func(read requests.PathReading) bool { return read.IsBelow(resourcePlace) })
}

var resourcePlace = requests.SegmentsOf(WellKnownResource)

// Has reports whether there is a document for the path of a request.
func (rs *Resources) Has(r *http.Request) bool {
	return rs != nil && rs.documents[r.URL.EscapedPath()] != nil
}

// ServeHTTP serves the document.
func (rs *Resources) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin(w, r)
	if rs.Has(r) && shareWithAll(w, r, methodsGet) {
		return
	}
	if err := rs.serve(w, r); err != nil {
		rs.counters.Refused(metadataEndpoint, oauth.AsError(err))
		rs.audit.Refused(r, "endpoint request refused", err)
		answers.WriteOAuthJSON(w, answers.SetStatusHeaders(w, err), oauth.AsError(err))
	}
}

func (rs *Resources) serve(w http.ResponseWriter, r *http.Request) error {
	documents := rs.documents[r.URL.EscapedPath()]
	if len(documents) == 0 {
		return pathUnknown()
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return requests.MethodNotAllowed(methodsGet)
	}
	found, host := &documents[0], oauth.Hostname(r.Host)
	if i := slices.IndexFunc(documents, func(d resourceDocument) bool { return oauth.MatchHost(d.host, host) }); i >= 0 {
		found = &documents[i]
	} else if found.body == nil {
		return pathUnknown()
	}
	body := found.body
	if body == nil {
		at := found.resource
		at.Resource = oauth.AtHost(at.Resource, host)
		var err error
		if body, err = at.document(); err != nil {
			return err
		}
	}
	return writePublic(w, r, "application/json", body)
}

func pathUnknown() error {
	return requests.Error{Status: http.StatusNotFound, Err: oauth.NewError(answers.NotFound, "path_unknown").WithDescription("There is nothing at this path.")}
}
