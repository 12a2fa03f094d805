// Package registration is the client registration endpoint (RFC 7591) and the client configuration endpoint (RFC 7592) over HTTP.
package registration

import (
	"mime"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/registration"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// Endpoint serves a Registrar.
type Endpoint struct {
	Registrar *registration.Registrar
	// URL is where clients register; below it each has its own (RFC 7592 §3).
	URL string
}

// response is what a client is told of its registration (RFC 7591 §3.2.1).
type response struct {
	ClientID      string            `json:"client_id"`
	IssuedAt      int64             `json:"client_id_issued_at"`
	Secret        string            `json:"client_secret,omitzero"`
	SecretExpires *int64            `json:"client_secret_expires_at,omitzero"`
	Token         string            `json:"registration_access_token"`
	URI           string            `json:"registration_client_uri"`
	Name          string            `json:"client_name"`
	RedirectURIs  []string          `json:"redirect_uris"`
	Method        string            `json:"token_endpoint_auth_method"`
	Grants        []oauth.GrantType `json:"grant_types"`
	ResponseTypes []string          `json:"response_types"`
	Scope         string            `json:"scope"`
	JWKS          jsontext.Value    `json:"jwks,omitzero"`
	JWKSURI       string            `json:"jwks_uri,omitzero"`
	store.ClientOpenID
}

// update is a request to replace the metadata (RFC 7592 §2.2). What the server has set must not be in it.
type update struct {
	ClientID string         `json:"client_id"`
	Token    jsontext.Value `json:"registration_access_token"`
	URI      jsontext.Value `json:"registration_client_uri"`
	Expires  jsontext.Value `json:"client_secret_expires_at"`
	IssuedAt jsontext.Value `json:"client_id_issued_at"`
	registration.Metadata
}

// Register serves a registration and returns the id of the new client.
func (e *Endpoint) Register(w http.ResponseWriter, r *http.Request, address string) (clientID string, err error) {
	var m registration.Metadata
	if err := readJSON(w, r, &m); err != nil {
		return "", err
	}
	token, err := bearer(r)
	if err != nil {
		return "", err
	}
	registered, err := e.Registrar.Register(r.Context(), m, token, address)
	if err != nil {
		return "", forBearer(err)
	}
	e.write(w, http.StatusCreated, registered)
	return registered.Client.ID, nil
}

// Manage serves a request of a client about its own registration, and returns what was done with it.
func (e *Endpoint) Manage(w http.ResponseWriter, r *http.Request, id, address string) (done string, err error) {
	token, err := bearer(r)
	if err != nil {
		return "", err
	}
	registered, err := e.Registrar.Read(r.Context(), id, token) // who asks is known before what is asked
	if err != nil {
		return "", forBearer(err)
	}
	switch r.Method {
	case http.MethodDelete:
		if err := e.Registrar.Remove(r.Context(), id, token); err != nil {
			return "", forBearer(err)
		}
		w.WriteHeader(http.StatusNoContent)
		return "client removed by itself", nil
	case http.MethodPut:
		var u update
		if err := readJSON(w, r, &u); err != nil {
			return "", err
		}
		if u.ClientID != id || len(u.Token)+len(u.URI)+len(u.Expires)+len(u.IssuedAt) > 0 {
			return "", oauth.NewError(oauth.InvalidClientMetadata, "client_metadata_invalid").
				WithDescription("Send client_id and what the client says of itself, and nothing that the server has set.")
		}
		registered, err = e.Registrar.Update(r.Context(), id, token, u.Metadata, address)
		done = "client changed by itself"
	default:
		done = "client read by itself"
	}
	if err != nil {
		return "", forBearer(err)
	}
	e.write(w, http.StatusOK, registered)
	return done, nil
}

func (e *Endpoint) write(w http.ResponseWriter, status int, registered registration.Registered) {
	c := registered.Client
	answer := response{
		ClientID: c.ID, IssuedAt: c.CreatedAt.Unix(), Secret: registered.Secret.Reveal(), Token: registered.Token.Reveal(), URI: e.URL + "/" + c.ID,
		Name: c.Name, RedirectURIs: c.RedirectURIs, Method: registered.Method, Grants: c.Grants, ResponseTypes: []string{"code"}, Scope: c.Scopes.String(),
		JWKSURI: c.JWKSURI, ClientOpenID: c.OpenID,
	}
	if c.JWKS != "" {
		answer.JWKS = jsontext.Value(c.JWKS)
	}
	if answer.Secret != "" {
		answer.SecretExpires = new(int64) // never
	}
	w.Header()["Content-Type"] = answers.JSON
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, answer) // the client is gone when this fails
}

// readJSON reads a JSON object. A member of another type than it should have is the client's metadata being invalid.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" || len(r.Header["Content-Type"]) != 1 {
		return requests.Error{Status: http.StatusUnsupportedMediaType, Err: requests.Invalid("media_type_unsupported").WithDescription("Send the request as application/json.")}
	}
	if r.Header.Get("Content-Encoding") != "" {
		return requests.Error{Status: http.StatusUnsupportedMediaType, Err: requests.Invalid("content_encoding_unsupported")}
	}
	body, err := requests.ReadBody(w, r)
	if err != nil {
		return err
	}
	if strictjson.Object(body, into) != nil {
		return oauth.NewError(oauth.InvalidClientMetadata, "json_malformed").
			WithDescription("The body is no JSON object of client metadata, or has a member twice or of another type.")
	}
	return nil
}

// bearer returns the token of a request; an empty one when there is none.
func bearer(r *http.Request) (oauth.Secret, error) {
	token, _, err := requests.BearerToken(r)
	if err != nil {
		return oauth.Secret{}, forBearer(err)
	}
	return token, nil
}

// forBearer has an error about the token answered with a challenge.
func forBearer(err error) error {
	if e := oauth.AsError(err); e.Code == oauth.InvalidToken {
		return answers.BearerError{Err: e}
	}
	return err
}
