package caddymodule

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The files usertoken_*_test.go test the operation by which an organisation's admin obtains tokens for members
// against the wire contract, through a whole Caddy, one test for each row of the catalogue of attacks and faults.

// adminDoor is a userDoor with the token of an admin of the organisation acme.
type adminDoor struct {
	*userDoor
	admin string
}

// openAdmin serves people, changed by the pairs of old and new text, and creates a token for u-ada as an operator.
func openAdmin(t *testing.T, changes ...string) *adminDoor {
	t.Helper()
	d := &adminDoor{userDoor: openUsers(t, changes...)}
	d.awaitServing()
	d.admin = d.operatorToken("conf", "u-ada", "trusted public")
	return d
}

func (d *adminDoor) in(t *testing.T) *adminDoor { return &adminDoor{d.userDoor.in(t), d.admin} }

// sub runs a sub-test with its own door.
func (d *adminDoor) sub(name string, test func(*adminDoor)) {
	d.t.Run(name, func(t *testing.T) { test(d.in(t)) })
}

// operatorToken returns a token for a user that an operator creates.
func (d *adminDoor) operatorToken(client, user, scope string) string {
	d.t.Helper()
	made, err := d.operator().MintUserToken(d.t.Context(), client, user, scope, 0)
	check(d.t, err)
	token := made.AccessToken.Reveal()
	d.remember("access token", token)
	return token
}

// stored adds a user directly to the store, without the registry's checks.
func (d *adminDoor) stored(u store.User) {
	d.t.Helper()
	if u.Email == "" {
		u.Email = u.ID + "@stored.example"
	}
	if u.Status == "" {
		u.Status = store.UserActive
	}
	check(d.t, d.app().node.Store().Users.AddUser(d.t.Context(), &u, true))
}

// manager adds a group manager of acme whom the test can change.
func (d *adminDoor) manager(id string) {
	d.t.Helper()
	d.stored(store.User{
		ID: id, Organisation: "acme", Role: store.RoleGroupManager, PasswordHash: oauth.NewSecret(peopleHash()),
	})
}

// families counts the live families of all users.
func (d *adminDoor) families() int {
	d.t.Helper()
	users, err := d.app().registry.People.Users(d.t.Context(), "")
	check(d.t, err)
	n := 0
	for _, u := range users {
		families, err := d.app().node.Store().Families.FamiliesOf(d.t.Context(), u.ID, time.Time{})
		check(d.t, err)
		n += len(families)
	}
	return n
}

const (
	mintPath      = "/api/v1/organisations/me/users/"
	mintPathEnd   = "/access_tokens"
	documentMedia = "application/vnd.api+json"
)

// reference returns the body that names a user.
func reference(id string) string { return `{"data":{"id":` + strconv.Quote(id) + `,"type":"users"}}` }

// mintRequest is a request for a token for the user with that id. Its other members replace the defaults of a good
// request.
type mintRequest struct {
	id     string
	method string
	path   string
	query  string
	body   string
	// headers replace or add headers; the value "-" omits one.
	headers map[string]string
}

// mint sends a request with a bearer token; empty: without one.
func (d *adminDoor) mint(token string, r mintRequest) answer {
	d.t.Helper()
	headers := map[string]string{"Content-Type": documentMedia, "Accept": documentMedia}
	if token != "" {
		headers["Authorization"] = "Bearer " + token
	}
	maps.Copy(headers, r.headers)
	var list []string
	for name, value := range headers {
		if value != "-" {
			list = append(list, name, value)
		}
	}
	if headers["Content-Type"] == "-" {
		list = append(list, "Content-Type", "") // otherwise send adds one
	}
	method, path, body := r.method, r.path, r.body
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = mintPath + r.id + mintPathEnd
	}
	if body == "" {
		body = reference(r.id)
	}
	return d.send(d.t, method, path+r.query, body, list...)
}

// created expects a request to yield a token, and checks the answer against the contract.
func (d *adminDoor) created(token string, r mintRequest) tokens {
	d.t.Helper()
	d.decisions(d.t)
	a := d.mint(token, r)
	if a.status != http.StatusCreated {
		d.t.Fatalf("status %d: %s", a.status, a.body)
	}
	d.holdAdminHeaders(a)
	for _, absent := range []string{"Location", "Www-Authenticate", "Retry-After", "Allow"} {
		if got := a.header.Values(absent); got != nil {
			d.t.Errorf("%s: %q", absent, got)
		}
	}
	got := d.tokensIn(a)
	if got.RefreshToken == "" {
		d.t.Error("there is no refresh token")
	}
	if line := d.audited(); line["msg"] != "token created by an admin" || line["jti"] != claims(d.t, got.AccessToken)["jti"] {
		d.t.Errorf("audited as %v", line)
	}
	d.upstream.none(d.t)
	return got
}

// mintFor expects the admin to get a token for the user.
func (d *adminDoor) mintFor(id string) tokens {
	d.t.Helper()
	return d.created(d.admin, mintRequest{id: id})
}

// holdAdminHeaders checks the headers that success and error share.
func (d *adminDoor) holdAdminHeaders(a answer) {
	d.t.Helper()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Pragma": "no-cache", "Content-Type": documentMedia, "Vary": "Accept",
		"X-Content-Type-Options": "nosniff",
	} {
		if got := a.header.Values(name); len(got) != 1 || got[0] != want {
			d.t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			d.t.Errorf("%s: %q", name, a.header[name])
		}
	}
}

// mintRefusal is the expected outcome of a refused request.
type mintRefusal struct {
	status int
	code   string
	reason string // the audit line's; "" is any
	// pointer is source.pointer; "-": there is no source.
	pointer string
	// challenge is the challenge after the realm; "-": there is no challenge.
	challenge string
}

// plainRefusal returns a refusal without a source and a challenge.
func plainRefusal(status int, code, reason string) mintRefusal {
	return mintRefusal{status, code, reason, "-", "-"}
}

// bodyRefusal returns a refusal that points into the document.
func bodyRefusal(status int, code, pointer string) mintRefusal {
	return mintRefusal{status, code, "", pointer, "-"}
}

// tokenRefusal returns a refusal of the credential.
func tokenRefusal(status int, code, challenge string) mintRefusal {
	return mintRefusal{status, code, "", "-", challenge}
}

const invalidTokenChallenge = `, error="invalid_token", error_description="The access token is invalid"`

// errorDocument is a complete JSON:API error document.
type errorDocument struct {
	Errors []struct {
		ID     string                    `json:"id"`
		Status string                    `json:"status"`
		Code   string                    `json:"code"`
		Title  string                    `json:"title"`
		Detail string                    `json:"detail"`
		Source *struct{ Pointer string } `json:"source"`
	} `json:"errors"`
	JSONAPI struct{ Version string } `json:"jsonapi"`
}

// refused expects a request to be refused this way, with nothing issued, nothing forwarded, and one audit line.
func (d *adminDoor) refused(token string, r mintRequest, want mintRefusal) answer {
	d.t.Helper()
	before := d.families()
	d.decisions(d.t)
	a := d.mint(token, r)
	body := r.body
	if body == "" {
		body = reference(r.id)
	}
	d.holdRefused(a, body, want)
	if after := d.families(); after > before {
		d.t.Errorf("%d families were born", after-before)
	}
	return a
}

// holdRefused checks a refusal against the contract and the invariants of every answer.
func (d *adminDoor) holdRefused(a answer, body string, want mintRefusal) {
	d.t.Helper()
	if a.status != want.status {
		d.t.Errorf("status %d, want %d: %s", a.status, want.status, a.body)
		return
	}
	d.holdAdminHeaders(a)
	d.holdErrorDocument(a, body, want)
	challenge := "-"
	if got := a.header.Values("Www-Authenticate"); len(got) == 1 {
		challenge = strings.TrimPrefix(got[0], `Bearer realm="`+d.url+`"`)
	}
	if challenge != want.challenge {
		d.t.Errorf("challenge %q, want %q", challenge, want.challenge)
	}
	if allow := a.header.Get("Allow"); (allow == http.MethodPost) != (a.status == http.StatusMethodNotAllowed) {
		d.t.Errorf("status %d with Allow %q", a.status, allow)
	}
	if retry := a.header.Get("Retry-After"); (retry != "") != (a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable) {
		d.t.Errorf("status %d with Retry-After %q", a.status, retry)
	}
	if jwtInText.MatchString(a.body) || a.header.Get("Location") != "" {
		d.t.Errorf("a token or a location: %v %s", a.header, a.body)
	}
	line := d.audited()
	if line["status"] != float64(a.status) || line["address"] != "127.0.0.1" || line["reason"] == "" || line["reason"] == nil {
		d.t.Errorf("audited as %v", line)
	}
	if want.reason != "" && line["reason"] != want.reason {
		d.t.Errorf("audited as %v, want %s", line["reason"], want.reason)
	}
	d.upstream.none(d.t)
}

// holdErrorDocument expects one error with all its members, and a pointer to a value in the request's body.
func (d *adminDoor) holdErrorDocument(a answer, body string, want mintRefusal) {
	d.t.Helper()
	var document errorDocument
	decoder := json.NewDecoder(strings.NewReader(a.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&document); err != nil || len(document.Errors) != 1 || document.JSONAPI.Version != "1.1" {
		d.t.Errorf("no error document: %v %s", err, a.body)
		return
	}
	e := document.Errors[0]
	if len(e.ID) < 20 || e.Status != strconv.Itoa(a.status) || e.Code != want.code || e.Title != http.StatusText(a.status) || e.Detail == "" {
		d.t.Errorf("the error is %+v, want %s", e, want.code)
	}
	pointer := "-"
	if e.Source != nil {
		pointer = e.Source.Pointer
		if !pointsInto(body, pointer) {
			d.t.Errorf("nothing is at %q in %s", pointer, body)
		}
	}
	if pointer != want.pointer {
		d.t.Errorf("pointer %q, want %q", pointer, want.pointer)
	}
}

// pointsInto reports whether a JSON pointer (RFC 6901) refers to a value of a document.
func pointsInto(document, pointer string) bool {
	var value any
	if json.Unmarshal([]byte(document), &value) != nil {
		return false
	}
	for _, name := range strings.Split(pointer, "/")[1:] {
		object, _ := value.(map[string]any)
		found, ok := object[name]
		if !ok {
			return false
		}
		value = found
	}
	return pointer == "" || strings.HasPrefix(pointer, "/")
}
