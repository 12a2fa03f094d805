package identity

import (
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestG48EverySpellingIsTheSameName(t *testing.T) {
	guard := NewGuard([]string{"X-Tenant_Id", strings.Repeat("X-Long-", 12)})
	for _, name := range []string{
		"X_Auth_Subject", "X.Auth.Subject", "X-Auth_Subject", "x.auth.subject", "x_auth_SUBJECT", "X-Auth-Subject", "X~Auth!Subject",
		"X_Auth_Client", "x-auth.scope", "X_AUTH_ORGANISATION", "X.Auth-Role", "X-Tenant-Id", "x.tenant.id",
		strings.Repeat("x_LONG.", 12),
	} {
		h := http.Header{name: {"mallory"}, "Accept": {"*/*"}}
		guard.Clean(h, true)
		if len(h) != 1 {
			t.Errorf("%s is kept", name)
		}
	}
	kept := http.Header{
		"X-Auth-Subjects": {"a"}, "X-Auth-Subjec": {"a"}, "XAuth-Subject": {"a"}, "X--Auth-Subject": {"a"}, "Accept-Charset": {"a"},
		"Authorization": {"a"}, "X-Auth-Rolf": {"a"}, "Content-Length": {"0"}, strings.Repeat("Z-Long-", 12): {"a"},
	}
	h := kept.Clone()
	guard.Clean(h, true)
	if !maps.EqualFunc(h, kept, func(a, b []string) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("left %v of %v", h, kept)
	}
}
