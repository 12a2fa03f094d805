package clientmetadata

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// document is a client id metadata document.
type document struct {
	ClientID      string         `json:"client_id"`
	Secret        jsontext.Value `json:"client_secret"`
	SecretExpires jsontext.Value `json:"client_secret_expires_at"`
	clients.Metadata
}

// parse reads the document at a URL, whose keys must be where clients may have them.
func (d *Documents) parse(id string, body []byte) (*store.Client, error) {
	c, err := parse(id, body, d.settings.OpenID)
	if err != nil || c.JWKSURI == "" {
		return c, err
	}
	u, err := d.settings.keyURL(c.JWKSURI)
	switch {
	case err != nil:
		return nil, err
	case !d.settings.admits(u.Hostname()):
		return nil, errors.New("the host of its jwks_uri is not admitted here")
	}
	return c, nil
}

// parse reads the document at a URL. The client has every scope that the caller gives it, which is none yet.
func parse(id string, body []byte, openID bool) (*store.Client, error) {
	var d document
	if err := strictjson.Object(body, &d); err != nil {
		return nil, fmt.Errorf("it is no JSON object of client metadata: %w", err)
	}
	switch {
	case d.ClientID == "":
		return nil, errors.New("client_id is missing")
	case d.ClientID != id:
		return nil, errors.New("its client_id is not its URL, byte for byte")
	case len(d.Secret) > 0 || len(d.SecretExpires) > 0:
		return nil, errors.New("it has a client_secret, which everybody can read")
	case d.AuthMethod != "" && d.AuthMethod != clients.MethodNone && d.AuthMethod != clients.MethodPrivateKey:
		return nil, errors.New("token_endpoint_auth_method must be none or private_key_jwt")
	}
	if !openID {
		d.ClientOpenID = store.ClientOpenID{}
	}
	u, err := url.Parse(id)
	if err != nil {
		return nil, err
	}
	c := &store.Client{ID: id, Origin: store.FromMetadata, Scopes: oauth.Scopes{}}
	if err := d.Secretless(c, u.Host); err != nil {
		return nil, err
	}
	return c, c.Validate()
}
