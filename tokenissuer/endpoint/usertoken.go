package endpoint

import (
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// The path of the endpoint at which an organisation's admin obtains a token for a member.
const (
	adminPrefix = "/api/v1/organisations/"
	adminUsers  = adminPrefix + "me/users/"
	adminSuffix = "/access_tokens"
	// maxDocument is the maximum body size in bytes; a body has two short members.
	maxDocument = 16 << 10
)

// memberTokens is the endpoint at which an organisation's admin obtains a token for a member.
type memberTokens struct {
	tokens   *issuer.UserTokens
	audit    *Audit
	counters Counters
	prefix   string // the path of the issuer's URL
}

// owns reports whether a path is the endpoint's, or could be read as it by an upstream that decodes, ignores case, empty segments or
// parameters, or resolves dot segments.
func (h *memberTokens) owns(u *url.URL) bool {
	if !requests.MayMention(u, adminSuffix[1:]) { // excludes nearly every path
		return false
	}
	if isUsersTokens(u.EscapedPath(), h.prefix) {
		return true
	}
	prefix := requests.SegmentsOf(h.prefix)
	climbing := slices.Concat(prefix, requests.SegmentsOf(adminPrefix+"users"+adminSuffix))
	return requests.PathReadings(u, func(read requests.PathReading) bool {
		if read.Climbs {
			return read.Passes(climbing)
		}
		return read.IsBelow(prefix) && isUsersTokens("/"+strings.Join(read.Segments[len(prefix):], "/"), "")
	})
}

func isUsersTokens(spelling, prefix string) bool {
	rest, ok := strings.CutPrefix(spelling, prefix+adminPrefix)
	return ok && strings.Contains(rest, "/users/") && strings.Contains(rest, adminSuffix)
}

// serve issues an organisation's admin a token for a member. The order of checks is part of the interface: only an admin learns anything
// about a user.
func (h *memberTokens) serve(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept")
	// 1. Authenticate the admin, by the current directory.
	token, err := requests.Credential(r)
	if err != nil {
		return err
	}
	t, err := h.tokens.Minter.Verifier.Verify(token.Reveal(), h.tokens.Minter.Audience)
	if err != nil {
		return err
	}
	admin, err := h.tokens.OrganisationAdmin(r.Context(), t)
	if err != nil {
		return forMint(err, t, "")
	}
	// 2. Check the media types.
	if err := checkMedia(r); err != nil {
		return forMint(err, t, "")
	}
	// 3. Read the resources and the member's id, which must be the same in body and path.
	id, resources, err := h.targetOf(w, r)
	if err != nil {
		return forMint(err, t, "")
	}
	// 4. Issue the token.
	tokens, err := h.tokens.IssueForUser(r.Context(), admin, t, id, resources)
	if err != nil {
		return forMint(atResource(err), t, id)
	}
	h.counters.Issued(store.AdminCreated)
	h.audit.Accepted(r, "token created by an admin", append(issued(nil, tokens),
		zap.String("admin", admin.ID), zap.String("organisation", admin.Organisation))...)
	answers.WriteObject(w, http.StatusCreated, answers.JSONAPI, responseOf(tokens))
	return nil
}

// mintError adds the admin and the member to an error, for the audit log. Target is empty if the request was refused before it named a
// member.
type mintError struct {
	error
	admin, target string
}

func (e mintError) Unwrap() error { return e.error }

func forMint(err error, t *token.AccessToken, target string) error {
	return mintError{forClient(err, &store.Client{ID: t.ClientID}), t.Subject, target}
}

// atResource adds the pointer to the refused resource in the document.
func atResource(err error) error {
	if oauth.AsError(err).Code == oauth.InvalidTarget {
		return pointedError{err, resourcePointer}
	}
	return err
}

// targetOf returns the member's id, from path and body, and the resources that the body names.
func (h *memberTokens) targetOf(w http.ResponseWriter, r *http.Request) (id string, resources []string, err error) {
	body, err := readDocument(w, r)
	if err != nil {
		return "", nil, err
	}
	inBody, resources, err := parseUserReference(body)
	if err != nil {
		return "", nil, err
	}
	own := strings.TrimPrefix(r.URL.EscapedPath(), h.prefix)
	raw := strings.TrimSuffix(strings.TrimPrefix(own, adminUsers), adminSuffix)
	id, err = url.PathUnescape(raw)
	if err != nil || adminUsers+raw+adminSuffix != own || raw == "" || strings.Contains(raw, "/") || !requests.Storable(id) {
		return "", nil, oauth.NewError(oauth.UserNotFound, "path_unknown")
	}
	// Unreserved characters must not be escaped. For other characters, encoders differ.
	if needlessEscape.MatchString(raw) {
		return "", nil, oauth.NewError(oauth.UserNotFound, "path_not_canonical")
	}
	if id != inBody {
		return "", nil, documentError(http.StatusConflict, "id_conflict", "/data/id", "The id in the body is not the one in the path.")
	}
	return id, resources, nil
}

// needlessEscape matches an escaped unreserved character (RFC 3986 §2.3).
var needlessEscape = regexp.MustCompile(`(?i)%(2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])`)

// checkMedia checks the media types by JSON:API 1.1 §5: Content-Type must have no parameters except profile, and Accept must allow the
// type. It tolerates a charset of UTF-8.
func checkMedia(r *http.Request) error {
	lines := r.Header["Content-Type"]
	if len(lines) != 1 || !isDocumentType(lines[0]) {
		return requests.Error{Status: http.StatusUnsupportedMediaType, Err: oauth.NewError("unsupported_media_type", "media_type_unsupported").
			WithDescription("Send the request as application/vnd.api+json without parameters.")}
	}
	if !acceptsDocument(r.Header["Accept"]) {
		return requests.Error{Status: http.StatusNotAcceptable, Err: oauth.NewError("not_acceptable", "not_acceptable").
			WithDescription("The answer is application/vnd.api+json.")}
	}
	return nil
}

func isDocumentType(contentType string) bool {
	media, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || media != answers.JSONAPIMediaType {
		return false
	}
	for name, value := range parameters {
		if name != "profile" && (name != "charset" || !strings.EqualFold(value, "utf-8")) {
			return false
		}
	}
	return true
}

// acceptsDocument reports whether Accept allows the document, by a wildcard or by its type without unsupported parameters.
func acceptsDocument(accept []string) bool {
	all := strings.Join(accept, ",")
	if strings.TrimSpace(all) == "" {
		return true
	}
	for element := range strings.SplitSeq(all, ",") {
		media, parameters, err := mime.ParseMediaType(element)
		if err != nil || answers.Weight(strings.TrimPrefix(element, media)) == 0 {
			continue
		}
		delete(parameters, "q")
		delete(parameters, "profile")
		switch media {
		case "*/*", "application/*":
			return true
		case answers.JSONAPIMediaType:
			if len(parameters) == 0 {
				return true
			}
		}
	}
	return false
}

func readDocument(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxDocument {
		return nil, requests.TooLarge(w)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxDocument)
	return requests.ReadBody(w, r)
}

// parseUserReference parses {"data":{"id":…,"type":"users"}} strictly. It refuses duplicate names, names that differ from the defined ones
// only in case, and trailing data. It ignores other members. The only known attribute is resource (RFC 8707).
func parseUserReference(body []byte) (id string, resources []string, err error) {
	// It has no pointer: a malformed document has no values to point to.
	malformed := requests.Error{Status: http.StatusBadRequest, Err: oauth.NewError("invalid_json", "invalid_json").
		WithDescription("The body is no JSON object, or names a member twice.")}
	var top map[string]jsontext.Value
	if strictjson.Object(body, &top) != nil || hasVariant(top, "data") {
		return "", nil, malformed
	}
	data, ok := top["data"]
	if !ok {
		return "", nil, missingMember("data", "")
	}
	if data.Kind() != '{' {
		return "", nil, invalidMember("data", "/data")
	}
	var members map[string]jsontext.Value
	if strictjson.Unmarshal(data, &members) != nil || hasVariant(members, "id") || hasVariant(members, "type") {
		return "", nil, malformed
	}
	values := make(map[string]string)
	for _, name := range []string{"type", "id"} {
		raw, ok := members[name]
		if !ok {
			return "", nil, missingMember(name, "/data")
		}
		var text string
		if raw.Kind() != '"' || strictjson.Unmarshal(raw, &text) != nil || text == "" || !requests.Storable(text) {
			return "", nil, invalidMember(name, "/data/"+name)
		}
		values[name] = text
	}
	if values["type"] != "users" {
		return "", nil, documentError(http.StatusConflict, "type_conflict", "/data/type", "The type must be users.")
	}
	resources, err = resourcesIn(members["attributes"])
	return values["id"], resources, err
}

// The member of the document that names the requested resources.
const (
	resourceMember  = "resource"
	resourcePointer = "/data/attributes/" + resourceMember
)

// resourcesIn returns the resources among the attributes: a string, or an array of strings. Attributes that are not an object are ignored
// like an unknown member.
func resourcesIn(attributes jsontext.Value) (resources []string, err error) {
	invalid := documentError(http.StatusBadRequest, "invalid_member", resourcePointer, "The member resource must be a string or an array of strings.")
	var members map[string]jsontext.Value
	if attributes.Kind() != '{' {
		return nil, nil
	}
	if strictjson.Unmarshal(attributes, &members) != nil || hasVariant(members, resourceMember) {
		return nil, invalid
	}
	switch asked := members[resourceMember]; asked.Kind() {
	case jsontext.KindInvalid, 'n': // absent
		return nil, nil
	case '"':
		resources = make([]string, 1)
		err = strictjson.Unmarshal(asked, &resources[0])
	default:
		err = strictjson.Unmarshal(asked, &resources)
	}
	if err != nil || slices.Contains(resources, "") {
		return nil, invalid
	}
	return resources, nil
}

// hasVariant reports whether an object has a member whose name differs from name only in case. A lenient parser could take it for name.
func hasVariant(members map[string]jsontext.Value, name string) bool {
	for other := range members {
		if strictjson.FoldsTo(other, name) {
			return true
		}
	}
	return false
}
