package upstream

import (
	"net/url"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Answer is the provider's authorization response, as the browser delivers it (RFC 6749 §4.1.2). Anyone can forge one. State shows whether
// this browser was sent to the provider.
type Answer struct {
	State string
	Code  oauth.Secret
	// Issuer is the iss parameter (RFC 9207), or empty.
	Issuer string
	// Error is the provider's error code. It is empty if there is a code.
	Error string
}

// maxParameter is the maximum length of a parameter in bytes. Entra's codes have about 2,000.
const maxParameter = 16 << 10

// ReadAnswer reads the query of the callback. It refuses a query with a repeated or overlong parameter, and one with both a code and an
// error, or neither, because sender and reader could interpret it differently.
func ReadAnswer(query url.Values) (Answer, error) {
	one := func(name string) string { return query.Get(name) }
	for _, name := range []string{"state", "code", "iss", "error"} {
		values := query[name]
		if len(values) > 1 {
			return Answer{}, malformed("the answer has several " + name)
		}
		if len(one(name)) > maxParameter {
			return Answer{}, malformed("the answer has an endless " + name)
		}
	}
	a := Answer{State: one("state"), Code: oauth.NewSecret(one("code")), Issuer: one("iss"), Error: one("error")}
	switch {
	case a.State == "":
		return Answer{}, malformed("the answer has no state")
	case a.Code.IsEmpty() && a.Error == "":
		return Answer{}, malformed("the answer has neither code nor error")
	case !a.Code.IsEmpty() && a.Error != "":
		return Answer{}, malformed("the answer has both code and error")
	}
	return a, nil
}
