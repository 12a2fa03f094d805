package endpoint

import (
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// registrations are the client registration endpoint (RFC 7591) and the client configuration endpoint (RFC 7592).
type registrations struct {
	audit *Audit
	// registrar is nil if clients cannot register.
	registrar *clients.Registrar
	// url is the URL of the client registration endpoint, and path its path. Each client's configuration endpoint is below it (RFC 7592
	// §3).
	url, path string
}

// clientAt returns the client whose registration is managed at a path.
func (h *registrations) clientAt(path string) (id string, ok bool) {
	id, below := strings.CutPrefix(path, h.path+"/")
	return id, below && h.registrar != nil && id != "" && !strings.ContainsAny(id, "/%")
}

// registrationResponse is the client information response (RFC 7591 §3.2.1).
type registrationResponse struct {
	ClientID      string `json:"client_id"`
	IssuedAt      int64  `json:"client_id_issued_at"`
	Secret        string `json:"client_secret,omitzero"`
	SecretExpires *int64 `json:"client_secret_expires_at,omitzero"`
	Token         string `json:"registration_access_token"`
	URI           string `json:"registration_client_uri"`
	clients.Metadata
}

// registrationUpdate is a request to replace the metadata (RFC 7592 §2.2). It must not contain members that the server sets.
type registrationUpdate struct {
	ClientID string         `json:"client_id"`
	Token    jsontext.Value `json:"registration_access_token"`
	URI      jsontext.Value `json:"registration_client_uri"`
	Expires  jsontext.Value `json:"client_secret_expires_at"`
	IssuedAt jsontext.Value `json:"client_id_issued_at"`
	clients.Metadata
}

// register serves a registration.
func (h *registrations) register(w http.ResponseWriter, r *http.Request) error {
	var m clients.Metadata
	if err := readJSON(w, r, &m); err != nil {
		return err
	}
	token, err := registrationToken(r)
	if err != nil {
		return err
	}
	registered, err := h.registrar.Register(r.Context(), m, token, h.audit.Address(r))
	if err != nil {
		return forBearer(err)
	}
	h.write(w, http.StatusCreated, registered)
	h.audit.Accepted(r, "client registered itself", zap.String("client_id", registered.Client.ID))
	return nil
}

// manage serves a client's request about its own registration.
func (h *registrations) manage(w http.ResponseWriter, r *http.Request) error {
	id, _ := h.clientAt(r.URL.EscapedPath())
	done, err := h.change(w, r, id)
	if err == nil {
		h.audit.Accepted(r, done, zap.String("client_id", id))
	}
	return err
}

// change carries out a client's request about its registration, and returns what it was.
func (h *registrations) change(w http.ResponseWriter, r *http.Request, id string) (done string, err error) {
	token, err := registrationToken(r)
	if err != nil {
		return "", err
	}
	registered, err := h.registrar.Read(r.Context(), id, token) // authenticate before reading the request
	if err != nil {
		return "", forBearer(err)
	}
	switch r.Method {
	case http.MethodDelete:
		if err := h.registrar.Remove(r.Context(), id, token); err != nil {
			return "", forBearer(err)
		}
		w.WriteHeader(http.StatusNoContent)
		return "client removed by itself", nil
	case http.MethodPut:
		var u registrationUpdate
		if err := readJSON(w, r, &u); err != nil {
			return "", err
		}
		if u.ClientID != id || len(u.Token)+len(u.URI)+len(u.Expires)+len(u.IssuedAt) > 0 {
			return "", oauth.NewError(oauth.InvalidClientMetadata, "client_metadata_invalid").
				WithDescription("Send client_id and what the client says of itself, and nothing that the server has set.")
		}
		registered, err = h.registrar.Update(r.Context(), id, token, u.Metadata, h.audit.Address(r))
		done = "client changed by itself"
	default:
		done = "client read by itself"
	}
	if err != nil {
		return "", forBearer(err)
	}
	h.write(w, http.StatusOK, registered)
	return done, nil
}

func (h *registrations) write(w http.ResponseWriter, status int, registered clients.Registered) {
	c := registered.Client
	answer := registrationResponse{
		ClientID: c.ID, IssuedAt: c.CreatedAt.Unix(), Secret: registered.Secret.Reveal(), Token: registered.Token.Reveal(), URI: h.url + "/" + c.ID,
		Metadata: registered.Metadata,
	}
	if answer.Secret != "" {
		answer.SecretExpires = new(int64) // never
	}
	w.Header()["Content-Type"] = answers.JSON
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, answer) // an error means that the client has disconnected
}

// readJSON decodes a JSON object. A member of the wrong type is invalid client metadata.
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

// registrationToken returns the token of a request, or an empty one if there is none.
func registrationToken(r *http.Request) (oauth.Secret, error) {
	token, _, err := requests.BearerToken(r)
	if err != nil {
		return oauth.Secret{}, forBearer(err)
	}
	return token, nil
}

// forBearer marks an error about the token, so that the response has a challenge.
func forBearer(err error) error {
	if e := oauth.AsError(err); e.Code == oauth.InvalidToken {
		return answers.BearerError{Err: e}
	}
	return err
}
