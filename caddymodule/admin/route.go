package admin

import (
	"net/url"
	"strings"
)

// Route is the method and the path of an operation, with wildcards, as in "GET /oauth/users/{id}". The API serves the routes, its document
// describes them, and the command line calls them.
type Route string

// The routes of the API.
const (
	ShowDocument Route = "GET /oauth/admin-api.json"
	ShowReady    Route = "GET /oauth/ready"
	ShowStatus   Route = "GET /oauth/status"
	ShowRoutes   Route = "GET /oauth/routes"
	ShowWarnings Route = "GET /oauth/warnings"

	ListClients   Route = "GET /oauth/clients"
	AddClient     Route = "POST /oauth/clients"
	ShowClient    Route = "GET /oauth/clients/{id}"
	UpdateClient  Route = "PATCH /oauth/clients/{id}"
	RemoveClient  Route = "DELETE /oauth/clients/{id}"
	RotateSecret  Route = "POST /oauth/clients/{id}/rotate-secret"
	DisableClient Route = "POST /oauth/clients/{id}/disable"
	EnableClient  Route = "POST /oauth/clients/{id}/enable"

	ListOrganisations  Route = "GET /oauth/organisations"
	AddOrganisation    Route = "POST /oauth/organisations"
	RemoveOrganisation Route = "DELETE /oauth/organisations/{id}"

	ListUsers    Route = "GET /oauth/users"
	AddUser      Route = "POST /oauth/users"
	ShowUser     Route = "GET /oauth/users/{id}"
	UpdateUser   Route = "PATCH /oauth/users/{id}"
	RemoveUser   Route = "DELETE /oauth/users/{id}"
	UserSessions Route = "GET /oauth/users/{id}/sessions"
	SetPassword  Route = "POST /oauth/users/{id}/password"
	SetRole      Route = "POST /oauth/users/{id}/role"
	DisableUser  Route = "POST /oauth/users/{id}/disable"
	LockUser     Route = "POST /oauth/users/{id}/lock"
	EnableUser   Route = "POST /oauth/users/{id}/enable"
	InviteUser   Route = "POST /oauth/invitations"
	RecoverUser  Route = "POST /oauth/users/{id}/recovery"

	ImportUsers   Route = "POST /oauth/imports"
	ImportClients Route = "POST /oauth/imports/clients"
	ImportTokens  Route = "POST /oauth/imports/tokens"
	EndImport     Route = "POST /oauth/imports/end"
	ChangeGroups  Route = "POST /oauth/groups"

	ListSessions Route = "GET /oauth/sessions"
	EndSession   Route = "DELETE /oauth/sessions/{id}"
	EndSessions  Route = "DELETE /oauth/sessions"

	ListFactors   Route = "GET /oauth/users/{id}/factors"
	RemoveFactors Route = "DELETE /oauth/users/{id}/factors"
	RemoveFactor  Route = "DELETE /oauth/users/{id}/factors/{factor}"

	ListPersonalTokens  Route = "GET /oauth/personal_tokens"
	AddPersonalToken    Route = "POST /oauth/personal_tokens"
	RemovePersonalToken Route = "DELETE /oauth/personal_tokens/{id}"
	UserPersonalTokens  Route = "GET /oauth/users/{id}/personal_tokens"

	MintToken    Route = "POST /oauth/tokens"
	ExplainToken Route = "POST /oauth/tokens/explain"
	Revoke       Route = "POST /oauth/revocations"

	ListAudit   Route = "GET /oauth/audit"
	ShowAudit   Route = "GET /oauth/audit/{id}"
	CountAudit  Route = "GET /oauth/audit/counts"
	ExportAudit Route = "GET /oauth/audit/export"

	ListKeys   Route = "GET /oauth/keys"
	RotateKeys Route = "POST /oauth/keys/rotate"
	RevokeKey  Route = "POST /oauth/keys/revoke"

	ListProviders Route = "GET /oauth/providers"
	TestProvider  Route = "POST /oauth/providers/{name}/test"
	TestMail      Route = "POST /oauth/mail/test"
	WriteBackup   Route = "POST /oauth/backup"
)

// split returns the method and the path.
func (r Route) split() (method, path string) {
	method, path, _ = strings.Cut(string(r), " ")
	return method, path
}

// wildcards returns the names of the wildcards in the path.
func (r Route) wildcards() (names []string) {
	for part := range strings.SplitSeq(string(r), "/") {
		if name, is := strings.CutPrefix(part, "{"); is {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// Request is a request to the API.
type Request struct{ Method, Path string }

// For returns the request with values in place of the wildcards, in their order.
func (r Route) For(values ...string) Request {
	method, path := r.split()
	for _, value := range values {
		before, wildcard, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(wildcard, "}")
		path = before + escaped(value) + after
	}
	return Request{method, path}
}

// escaped returns an id as a segment of a path. One that consists of dots would be a relative path.
func escaped(id string) string {
	if strings.Trim(id, ".") == "" {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

// With returns the request with a query.
func (r Request) With(query url.Values) Request {
	if len(query) > 0 {
		r.Path += "?" + query.Encode()
	}
	return r
}
