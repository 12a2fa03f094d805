package caddymodule

import (
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The files token_*_test.go test the token endpoint and its neighbours against the wire contract, through a whole
// Caddy, one test for each row of the catalogue of attacks and faults.

// patient is the site without the limit on failed client authentications, which most rows would exceed, and with
// clients whose credentials need encoding.
var patient = strings.Replace(site, "store memory\n", `store memory
		limits {
			client off
		}
		client "co:lon %+&é id" "se:cret %+&é 50% =" {
			scopes public
		}
		client admin admin-SECRET
		client keyed keyed-SECRET {
			type public
			scopes public
		}
`, 1)

// onDisk is patient with a SQLite store.
var onDisk = strings.Replace(patient, "store memory", "store sqlite DIR/x.db", 1)

// door is a Gatehouse that checks every answer against the invariants.
type door struct {
	*gatehouse
	client *http.Client
	read   int64 // bytes of the log that decisions has read
}

func openDoor(t *testing.T, caddyfile string) *door {
	t.Helper()
	d := &door{gatehouse: startGatehouse(t, caddyfile), client: &http.Client{
		Transport:     &http.Transport{DisableCompression: true},
		CheckRedirect: stays,
		Timeout:       patience,
	}}
	t.Cleanup(d.client.CloseIdleConnections)
	return d
}

// reload loads another configuration. The client's idle connections belong to the previous server, which closes them
// at some time. A POST in flight on one of them is lost, as with any server.
func (d *door) reload(caddyfile string) {
	d.t.Helper()
	d.gatehouse.reload(caddyfile)
	d.client.CloseIdleConnections()
}

// from sends the requests from another loopback address.
func (d *door) from(address string) *door {
	other := *d
	other.client = &http.Client{Transport: oneShot(&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}})}
	return &other
}

const urlEncoded = "application/x-www-form-urlencoded"

// send sends a request; headers are name, value, …. A body without a Content-Type is a urlencoded form.
func (d *door) send(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	if named := slices.ContainsFunc(headers, func(h string) bool { return strings.EqualFold(h, "Content-Type") }); body != "" && !named {
		headers = append(slices.Clone(headers), "Content-Type", urlEncoded)
	}
	return sentBy(t, d.client, method, d.url+path, body, headers...)
}

// ask posts a form to an endpoint.
func (d *door) ask(t *testing.T, path, body string, headers ...string) answer {
	t.Helper()
	return d.send(t, http.MethodPost, path, body, headers...)
}

// basic returns an Authorization header with the text as a Basic credential.
func basic(text string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(text))}
}

// asConf are the form parameters that authenticate the client conf.
const asConf = "client_id=conf&client_secret=" + confSecret

const ccGrant = "grant_type=client_credentials"

// decisions returns the audit lines since the last call.
func (d *door) decisions(t *testing.T) []map[string]any {
	t.Helper()
	return d.auditLines(&d.read)
}

// leaves checks that there is one new audit line with these members, and returns it; nil: it checks that there is
// none.
func (d *door) leaves(t *testing.T, want map[string]any) map[string]any {
	t.Helper()
	lines := d.decisions(t)
	if want == nil && len(lines) == 0 {
		return nil
	}
	if want == nil || len(lines) != 1 {
		t.Fatalf("%d lines, want one: %t: %v", len(lines), want != nil, lines)
	}
	for member, value := range want {
		if lines[0][member] != value {
			t.Errorf("%s: %v, want %v, in %v", member, lines[0][member], value, lines[0])
		}
	}
	return lines[0]
}

// looksLike checks that two answers differ only in their date.
func (a answer) looksLike(t *testing.T, other answer) {
	t.Helper()
	a.header, other.header = a.header.Clone(), other.header.Clone()
	a.header.Del("Date")
	other.header.Del("Date")
	if !reflect.DeepEqual(a, other) {
		t.Errorf("answered %d %s %v\nand another %d %s %v", a.status, a.body, a.header, other.status, other.body, other.header)
	}
}

// outcome is the expected outcome of a request.
type outcome struct {
	status int
	code   string
	reason string // the audit line's; "" is any
	text   string // "" is the code's own
	basic  bool   // the answer has a Basic challenge
}

func granted() outcome { return outcome{status: http.StatusOK} }

func malformed(reason string) outcome {
	return outcome{status: 400, code: "invalid_request", reason: reason}
}

func missing(name string) outcome {
	return outcome{400, "invalid_request", "parameter_missing", "Missing required parameter: " + name + ".", false}
}

func badClient(reason string) outcome {
	return outcome{status: 401, code: "invalid_client", reason: reason}
}

func badBasic(reason string) outcome {
	return outcome{status: 401, code: "invalid_client", reason: reason, basic: true}
}

func badScope() outcome { return outcome{status: 400, code: "invalid_scope"} }

func twoMechanisms() outcome {
	return outcome{400, "invalid_request", "client_authentication_twice",
		"The request utilizes more than one mechanism for authenticating the client.", false}
}

// contract holds the error descriptions of the wire contract, word for word.
var contract = map[string]string{
	"invalid_request":        "The request is missing a required parameter, includes an unsupported parameter value, or is otherwise malformed.",
	"invalid_client":         "Client authentication failed due to unknown client, no client authentication included, or unsupported authentication method.",
	"invalid_grant":          "The provided authorization grant is invalid, expired, revoked, does not match the redirection URI used in the authorization request, or was issued to another client.",
	"unauthorized_client":    "The client is not authorized to perform this request using this method.",
	"unsupported_grant_type": "The authorization grant type is not supported by the authorization server.",
	"invalid_scope":          "The requested scope is invalid, unknown, or malformed.",
	"server_error":           "The authorization server encountered an unexpected condition which prevented it from fulfilling the request.",
}

// description matches the permitted values of error_description (RFC 6749 §5.2).
var description = regexp.MustCompile(`^[\x20-\x21\x23-\x5B\x5D-\x7E]+$`)

// success matches the body of a client's own token: the members in the order of the contract, and no others.
var success = regexp.MustCompile(`^\{"access_token":"([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)","token_type":"Bearer","expires_in":(\d+),"scope":"([^"]+)","created_at":(\d+)\}\n?$`)

// hold checks an answer of the token endpoint, or a refusal of another endpoint, against the expected outcome and the
// invariants of every answer: headers, exact members, the contract's texts, one audit line with its reason.
func (d *door) hold(t *testing.T, a answer, want outcome) {
	t.Helper()
	d.holdUnaudited(t, a, want)
	lines := d.decisions(t)
	if len(lines) != 1 {
		t.Errorf("%d audit lines, want 1: %v", len(lines), lines)
		return
	}
	if want.reason != "" && lines[0]["reason"] != want.reason {
		t.Errorf("audited as %v, want %s", lines[0]["reason"], want.reason)
	}
	if want.code != "" && (lines[0]["reason"] == nil || lines[0]["reason"] == "") {
		t.Errorf("audited without a reason: %v", lines[0])
	}
}

// holdUnaudited is hold without the audit line, for concurrent requests.
func (d *door) holdUnaudited(t *testing.T, a answer, want outcome) {
	t.Helper()
	if a.status != want.status {
		t.Errorf("status %d, want %d: %s", a.status, want.status, a.body)
		return
	}
	holdHeaders(t, a)
	challenge := a.header.Values("Www-Authenticate")
	if want.basic != (len(challenge) == 1 && challenge[0] == `Basic realm="`+d.app().settings.Issuer.URL+`"`) || (!want.basic && challenge != nil) {
		t.Errorf("challenge %q, want one: %t", challenge, want.basic)
	}
	if want.code == "" {
		return
	}
	text := want.text
	if text == "" {
		text = contract[want.code]
	}
	holdError(t, a, want.code, text)
}

// holdHeaders checks the headers that successes and errors of the token, revocation, introspection and token info
// endpoints share.
func holdHeaders(t *testing.T, a answer) {
	t.Helper()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Pragma": "no-cache", "Content-Type": "application/json; charset=utf-8",
		"X-Content-Type-Options": "nosniff",
	} {
		if got := a.header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s: %q", name, a.header[name])
		}
	}
	retry := a.header.Get("Retry-After")
	if again := a.status == 429 || a.status == 503; again != (retry != "") {
		t.Errorf("status %d with Retry-After %q", a.status, retry)
	} else if again {
		if seconds, err := strconv.Atoi(retry); err != nil || seconds < 1 || seconds > 60 {
			t.Errorf("Retry-After %q", retry)
		}
	}
}

// holdError checks that a body has exactly error and error_description, in that order. An empty text accepts any that
// RFC 6749 allows.
func holdError(t *testing.T, a answer, code, text string) {
	t.Helper()
	var body struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Errorf("%v in %s", err, a.body)
		return
	}
	if body.Error != code || (text != "" && body.Description != text) {
		t.Errorf("%s: %q, want %s: %q", body.Error, body.Description, code, text)
	}
	if !description.MatchString(body.Description) {
		t.Errorf("error_description %q", body.Description)
	}
	exact, _ := json.Marshal(body)
	if strings.TrimSuffix(a.body, "\n") != string(exact) {
		t.Errorf("body %s, want %s", a.body, exact)
	}
}

// issued checks the success body and returns its token and scope.
func issued(t *testing.T, a answer) (token, scope string) {
	t.Helper()
	parts := success.FindStringSubmatch(a.body)
	if a.status != http.StatusOK || parts == nil {
		t.Errorf("status %d: %s", a.status, a.body)
		return "", ""
	}
	created, _ := strconv.ParseInt(parts[4], 10, 64)
	if age := node.Clock().Unix() - created; age < 0 || age > 60 {
		t.Errorf("created_at %d is %d s ago", created, age)
	}
	if parts[2] != "7200" {
		t.Errorf("expires_in %s, want 7200", parts[2])
	}
	return parts[1], parts[3]
}

// tokenCase is a row of a table of requests to the token endpoint.
type tokenCase struct {
	name    string
	body    string
	headers []string
	want    outcome
}

// run sends every case in turn.
func (d *door) run(t *testing.T, cases []tokenCase) {
	t.Helper()
	d.decisions(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := d.ask(t, "/oauth/token", c.body, c.headers...)
			d.hold(t, a, c.want)
			if c.want.status == http.StatusOK {
				issued(t, a)
			} else if strings.Contains(a.body, confSecret) || strings.Contains(a.body, "eyJ") {
				t.Errorf("a credential in %s", a.body)
			}
		})
	}
	d.upstream.none(t)
}

// passes reports whether the gate lets a token pass.
func (d *door) passes(t *testing.T, token string) bool {
	t.Helper()
	switch a := d.send(t, http.MethodGet, "/any/x", "", "Authorization", "Bearer "+token); a.status {
	case http.StatusOK:
		d.upstream.seen()
		return true
	case http.StatusUnauthorized:
		d.upstream.none(t)
		return false
	default:
		t.Fatalf("the gate answered %d %s", a.status, a.body)
		return false
	}
}

// multipartBody encodes fields as curl -F does, and returns the body with its Content-Type.
func multipartBody(fields ...string) (body, contentType string) {
	var b strings.Builder
	for pair := range slices.Chunk(fields, 2) {
		b.WriteString("--XX\r\nContent-Disposition: form-data; name=\"" + pair[0] + "\"\r\n\r\n" + pair[1] + "\r\n")
	}
	return b.String() + "--XX--\r\n", "multipart/form-data; boundary=XX"
}

// jsonBody encodes fields as one flat object, including repeated names.
func jsonBody(fields ...string) string {
	var members []string
	for pair := range slices.Chunk(fields, 2) {
		name, _ := json.Marshal(pair[0])
		value, _ := json.Marshal(pair[1])
		members = append(members, string(name)+":"+string(value))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// urlEncodedBody encodes fields as a form.
func urlEncodedBody(fields ...string) string {
	var pairs []string
	for pair := range slices.Chunk(fields, 2) {
		pairs = append(pairs, url.QueryEscape(pair[0])+"="+url.QueryEscape(pair[1]))
	}
	return strings.Join(pairs, "&")
}

// encodings are the three ways to send fields, each with its Content-Type.
var encodings = []struct {
	name string
	body func(...string) (body, contentType string)
}{
	{"urlencoded", func(f ...string) (string, string) { return urlEncodedBody(f...), urlEncoded }},
	{"multipart", multipartBody},
	{"JSON", func(f ...string) (string, string) { return jsonBody(f...), "application/json" }},
}

// confFields returns the fields of a token request by conf, and more.
func confFields(more ...string) []string {
	return append([]string{"grant_type", "client_credentials", "client_id", "conf", "client_secret", confSecret}, more...)
}

// register adds a client at run time, as the command line does, and returns its secret.
func (d *door) register(t *testing.T, c store.Client) string {
	t.Helper()
	_, secret, err := d.app().registry.Clients.AddClient(t.Context(), c)
	check(t, err)
	return secret.Reveal()
}

// claims decodes the claims of a token without verifying it.
func claims(t *testing.T, token string) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%d parts", len(parts))
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	check(t, err)
	var claims map[string]any
	check(t, json.Unmarshal(text, &claims))
	return claims
}
