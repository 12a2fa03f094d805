package admin

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// errChanged is the error of a change of a thing that has changed since its asker read it (RFC 9110 §13.1.1).
var errChanged = errors.New("it has changed since you read it: read it again, and decide anew")

// versioned is an answer with a version, which is in the header ETag (RFC 9110 §8.8.3).
type versioned struct {
	content any
	version string
}

// versionOfUser returns the version of what a change or a recovery of a user can change.
func versionOfUser(u *store.User) string { return versionOf(*u, u.EmailVerifiedBy, u.Version) }

// versionOfClient returns the version of what a change of a client or a new secret can change.
func versionOfClient(c *store.Client) string { return versionOf(*c, viewOf(c).Secrets) }

// versionOf returns the entity tag of the members of a thing.
func versionOf(members ...any) string {
	text, _ := json.Marshal(members, json.Deterministic(true)) // as they are marshaled in every answer
	digest := sha256.Sum256(text)
	return `"` + base64.RawURLEncoding.EncodeToString(digest[:16]) + `"`
}

// checkVersion returns errChanged if the request names another version than that of the thing as it is now.
func checkVersion(r *http.Request, version string) error {
	if asked := r.Header.Get("If-Match"); asked != "" && asked != "*" && asked != version {
		return errChanged
	}
	return nil
}
