package passwords

import (
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestDK29DearHashesAreNotImported: a hash of another server that takes about a second or less to verify → it is taken; a dearer one → it is refused
// with what it costs, because whoever guesses at it makes us compute it.
func TestDK29DearHashesAreNotImported(t *testing.T) {
	bcrypt := func(cost string) string { return "$2a$" + cost + "$" + strings.Repeat("a", 53) }
	const key = "$c2FsdHNhbHRzYWx0c2FsdA$bHXojks4sm1uMH4CDw9EcLZ/muyLxbYYc9xGzvNAnuQ"
	for hash, taken := range map[string]bool{
		bcrypt("10"): true, bcrypt("14"): true, DeviseScheme + bcrypt("14"): true, bcrypt("15"): false, DeviseScheme + bcrypt("16"): false,
		"$pbkdf2-sha256$i=2000000" + key: true, "$pbkdf2-sha256$i=4500000" + key: false,
		"$scrypt$ln=17,r=8,p=1" + key: true, "$scrypt$ln=17,r=8,p=16" + key: false, "$scrypt$ln=22,r=8,p=1" + key: false,
		"$argon2id$v=19$m=65536,t=3,p=4" + key: true, "$argon2id$v=19$m=262144,t=16,p=1" + key: false, "plain": false,
	} {
		if err := ValidateImported(oauth.NewSecret(hash)); (err == nil) != taken {
			t.Errorf("%s: %v", hash, err)
		}
	}
	for _, strange := range []string{"", "$", "$$$", "$2a$", "$scrypt$", "$scrypt$ln=99,r=8,p=1", "$argon2id$v=19$m=x", "$pbkdf2-sha256$i=-1"} {
		if cost := CostOf(strange); cost != 0 && strange != "$2a$" {
			t.Errorf("%q costs %v", strange, cost)
		}
	}
}
