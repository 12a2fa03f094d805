package keys

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestAKidIsNoOption: one thumbprint in 64 begins with a hyphen, and the command that revokes the key would take it
// for an option.
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
