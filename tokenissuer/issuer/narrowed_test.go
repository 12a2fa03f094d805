package issuer

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestNarrowedScopesHoldNothingOfTheRequest: a scope that is a substring of a request's body keeps the whole body in memory, and 65,536
// tokens are cached.
func TestNarrowedScopesHoldNothingOfTheRequest(t *testing.T) {
	client := &store.Client{ID: "c", Scopes: oauth.Scopes{oauth.ScopePublic, "ant", oauth.ScopeTrusted}}
	for _, asked := range []string{"ant", "ant public", "public ant trusted"} {
		t.Run(asked, func(t *testing.T) {
			text := strings.Clone(asked)
			granted, err := NarrowedScopes(client.Scopes, client, text)
			if err != nil || granted.String() != asked {
				t.Fatalf("%q, %v", granted, err)
			}
			for _, name := range granted {
				if at := uintptr(unsafe.Pointer(unsafe.StringData(name))) - uintptr(unsafe.Pointer(unsafe.StringData(text))); at < uintptr(len(text)) {
					t.Errorf("%s is a piece of the request", name)
				}
			}
		})
	}
}
