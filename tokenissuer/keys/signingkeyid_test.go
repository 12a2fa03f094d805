package keys

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestAKidIsNoOption: a thumbprint begins with a hyphen one time in 64, and would then be taken for an option by the
// command that revokes the key.
func TestAKidIsNoOption(t *testing.T) {
	for range 1000 {
		key, err := NewSigningKey(oauth.ES256, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(key.ID, "-") {
			t.Fatalf("the kid is %s", key.ID)
		}
	}
}
