package caddymodule

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

// described is the document of the admin API, as a validator and as routes.
var described = sync.OnceValue(func() (d struct {
	schemas *jsonschema.Compiler
	routes  *http.ServeMux
},
) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(admin.Document()))
	if err != nil {
		panic(err)
	}
	// The answers of later versions may have more members. Those of this one have none that the document does not know.
	for _, schema := range document.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any) {
		if members := schema.(map[string]any); members["additionalProperties"] == nil {
			members["additionalProperties"] = false
		}
	}
	d.schemas = jsonschema.NewCompiler()
	d.schemas.AssertFormat()
	if err := d.schemas.AddResource("file:///openapi.json", document); err != nil {
		panic(err)
	}
	d.routes = http.NewServeMux()
	for path, methods := range document.(map[string]any)["paths"].(map[string]any) {
		for method := range methods.(map[string]any) {
			d.routes.HandleFunc(strings.ToUpper(method)+" "+path, http.NotFound)
		}
	}
	return d
})

var documentMu sync.Mutex // a compiler is for one goroutine

// checkDescribed fails the test unless the document describes the answer of the admin API. Each answer to operateAs goes through it.
func checkDescribed(t *testing.T, method, path string, status int, body string) {
	t.Helper()
	if method == http.MethodHead || !strings.HasPrefix(path, "/oauth/") {
		return // the answer has no content, or is Caddy's
	}
	if err := asDescribed(method, path, status, body); err != nil {
		t.Errorf("%s %s: %d %s: the document says otherwise: %v", method, path, status, body, err)
	}
}

func asDescribed(method, path string, status int, body string) error {
	request, err := http.NewRequest(method, "http://localhost"+path, nil)
	if err != nil {
		return err
	}
	_, pattern := described().routes.Handler(request)
	method, route, found := strings.Cut(pattern, " ")
	if !found { // there is no such operation: the answer is an error
		method, route = "GET", "/oauth/users"
	}
	documentMu.Lock()
	defer documentMu.Unlock()
	at := "file:///openapi.json#/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(route) + "/" + strings.ToLower(method) + "/responses/"
	if status == http.StatusNoContent {
		_, err := described().schemas.Compile(at + "204")
		return err
	}
	schema, err := described().schemas.Compile(at + strconv.Itoa(status) + "/content/application~1json/schema")
	answers := []string{body}
	if lines, isLines := described().schemas.Compile(at + strconv.Itoa(status) + "/content/application~1jsonl/schema"); isLines == nil {
		schema, err, answers = lines, nil, slices.Collect(strings.Lines(body))
	}
	if err != nil && status >= 400 {
		schema, err = described().schemas.Compile(at + "default/content/application~1json/schema")
	}
	if err != nil {
		return err
	}
	for _, text := range answers {
		answer, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err == nil {
			err = schema.Validate(answer)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestX50AnswersAreAsTheDocumentSays: an answer of the admin API with a member that its document lacks, without one that it requires, or with
// another status → every test that asks for it fails; the document itself is served.
func TestX50AnswersAreAsTheDocumentSays(t *testing.T) {
	g := startGatehouse(t, staffed)
	if served := g.must(http.StatusOK, "GET", "/oauth/admin-api.json", ""); !strings.Contains(served, `"openapi":"3.1.0"`) {
		t.Errorf("%.300s", served)
	}
	user := g.must(http.StatusOK, "GET", "/oauth/users/u-ada", "")
	for name, wrong := range map[string]struct {
		method, path string
		status       int
		body         string
	}{
		"one more member":    {"GET", "/oauth/users/u-ada", 200, strings.Replace(user, "{", `{"hash":"x",`, 1)},
		"one member less":    {"GET", "/oauth/users/u-ada", 200, strings.Replace(user, `"source":"config"`, `"name":"x"`, 1)},
		"no time":            {"GET", "/oauth/keys", 200, `[{"kid":"a","algorithm":"ES256","state":"signing","created_at":"yesterday","active_from":"2026-01-01T00:00:00Z"}]`},
		"another value":      {"GET", "/oauth/users/u-ada", 200, strings.Replace(user, `"active"`, `"asleep"`, 1)},
		"another status":     {"GET", "/oauth/users/u-ada", 201, user},
		"no content":         {"GET", "/oauth/users/u-ada", 204, ``},
		"an unexplained 404": {"GET", "/oauth/users/nobody", 404, `{}`},
	} {
		if err := asDescribed(wrong.method, wrong.path, wrong.status, wrong.body); err == nil {
			t.Errorf("%s: it is as described", name)
		}
	}
	for _, request := range []struct{ method, path string }{
		{"GET", "/oauth/status"}, {"GET", "/oauth/ready"}, {"GET", "/oauth/routes"}, {"GET", "/oauth/clients"}, {"GET", "/oauth/organisations"}, {"GET", "/oauth/users"},
		{"GET", "/oauth/keys"}, {"GET", "/oauth/providers"}, {"GET", "/oauth/users/u-ada/sessions"}, {"GET", "/oauth/users/u-ada/factors"},
	} {
		g.must(http.StatusOK, request.method, request.path, "")
	}
}
