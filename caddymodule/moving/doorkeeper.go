package moving

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
)

// The tables of Doorkeeper.
const (
	Applications = "oauth_applications"
	AccessTokens = "oauth_access_tokens"
)

// Form is how a source keeps secrets or tokens.
type Form string

// The forms. Auto takes 64 hexadecimal digits for neither: they may be a token of Doorkeeper before 5.1, or a digest of one.
const (
	Auto   Form = ""
	Plain  Form = "plain"
	SHA256 Form = "sha256"
)

// ParseForm reads a form.
func ParseForm(text string) (Form, error) {
	switch f := Form(text); f {
	case Auto, Plain, SHA256:
		return f, nil
	}
	return Auto, fmt.Errorf("unknown form %q: use plain or sha256", text)
}

// errForm ends an import that would not know what it reads.
type errForm struct{ flag string }

func (e errForm) Error() string {
	return fmt.Sprintf("the values have 64 hexadecimal digits, and may be plain or hashed: say --%s plain or --%[1]s sha256", e.flag)
}

// digest returns the SHA-256 of a value. Beside digests there may be plain values from before Doorkeeper hashed them.
func (f Form) digest(value, flag string) ([]byte, error) {
	sum := sha256.Sum256([]byte(value))
	raw, err := hex.DecodeString(value)
	if err != nil || len(raw) != sha256.Size || strings.ToLower(value) != value || f == Plain {
		return sum[:], nil
	}
	if f == Auto {
		return nil, errForm{flag}
	}
	return raw, nil
}

// Doorkeeper turns rows of Doorkeeper 5.0 to 5.9 into what the admin API imports.
type Doorkeeper struct {
	Secrets, Tokens Form
	// OwnerType is the class of the users, where the owners of tokens are polymorphic.
	OwnerType string
	// DefaultScopes are those of an application that names none.
	DefaultScopes []string
	Now           time.Time
	// uids has the uid of each application that is imported, and refused the reason of each other one, by the key.
	uids, refused map[string]string
}

// Application returns the client of a row.
func (d *Doorkeeper) Application(row Row) (admin.ClientToImport, error) {
	c := admin.ClientToImport{
		ID: row.Text("uid"), Name: row.Text("name"), Confidential: row.Flag("confidential", true), RedirectURIs: strings.Fields(row.Text("redirect_uri")),
		Scopes: strings.Fields(row.Text("scopes")),
	}
	if len(c.Scopes) == 0 {
		c.Scopes = d.DefaultScopes
	}
	if c.ID == "" {
		return c, errors.New("it has no uid")
	}
	switch secret := row.Text("secret"); {
	case secret == "":
	case strings.HasPrefix(secret, "$2"):
		c.Secret = secret
	default:
		digest, err := d.Secrets.digest(secret, "secrets")
		if err != nil {
			return c, err
		}
		c.Secret = hex.EncodeToString(digest)
	}
	return c, nil
}

// Note notes whether the application of a row is imported, and if not, why. Its tokens share its fate.
func (d *Doorkeeper) Note(row Row, refused string) {
	if d.uids == nil {
		d.uids, d.refused = make(map[string]string), make(map[string]string)
	}
	if refused != "" {
		d.refused[row.Text("id")] = refused
		return
	}
	d.uids[row.Text("id")] = row.Text("uid")
}

// Skipped is why a token is not worth importing. It is counted, and not listed.
type Skipped string

// The reasons.
const (
	Revoked Skipped = "revoked"
	Expired Skipped = "expired"
)

func (s Skipped) Error() string { return "it is " + string(s) }

// Token returns the token of a row. The error is a Skipped if the token is not valid any more.
func (d *Doorkeeper) Token(row Row) (admin.TokenToImport, error) {
	t := admin.TokenToImport{Record: row.Key(), User: row.Text("resource_owner_id"), Scopes: strings.Fields(row.Text("scopes"))}
	if row.Text("revoked_at") != "" { // whenever that is: clocks and zones may be wrong
		return t, Revoked
	}
	created, err := row.Time("created_at")
	switch {
	case err != nil:
		return t, err
	case created.IsZero():
		return t, errors.New("it has no created_at")
	case created.After(d.Now):
		created = d.Now
	}
	t.CreatedAt = created.Unix()
	if lifetime := row.Text("expires_in"); lifetime != "" {
		seconds, err := strconv.ParseInt(lifetime, 10, 64)
		if err != nil || seconds < 0 || seconds > 1<<40 {
			return t, fmt.Errorf("expires_in is no number of seconds: %.32q", lifetime)
		}
		t.ExpiresAt = max(t.CreatedAt+seconds, 1)
	}
	if application := row.Text("application_id"); application != "" {
		if t.Client = d.uids[application]; t.Client == "" {
			if reason := d.refused[application]; reason != "" {
				return t, errors.New("its application was not brought over: " + reason)
			}
			return t, fmt.Errorf("there is no application %s", application)
		}
	}
	if kind := row.Text("resource_owner_type"); kind != "" && kind != d.OwnerType && t.User != "" {
		return t, fmt.Errorf("its owner is a %s and not a %s", kind, d.OwnerType)
	}
	refresh := row.Text("refresh_token")
	expired := t.ExpiresAt != 0 && t.ExpiresAt <= d.Now.Unix()
	if expired && (refresh == "" || t.User == "") {
		return t, Expired
	}
	if !expired {
		if t.Access, err = d.opaque(row.Text("token")); err != nil {
			return t, err
		}
	}
	if refresh != "" && t.User != "" {
		t.Refresh, err = d.opaque(refresh)
	}
	return t, err
}

// opaque returns the digest of a token.
func (d *Doorkeeper) opaque(text string) (string, error) {
	if text == "" {
		return "", errors.New("it is empty")
	}
	if !families.IsImportable(text) {
		if strings.Count(text, ".") == 2 {
			return "", errors.New("it is a JWT, which only its issuer can verify")
		}
		return "", errors.New("it is too short, too long or has characters that no bearer token has")
	}
	digest, err := d.Tokens.digest(text, "tokens")
	return base64.RawURLEncoding.EncodeToString(digest), err
}

// IsFatal reports whether an error is about the import as a whole, and not about one row.
func IsFatal(err error) bool { return errors.As(err, new(errForm)) || errors.As(err, new(errMap)) }
