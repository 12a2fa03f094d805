package sqlstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// filesHold reports whether any file of the database holds the bytes.
func filesHold(t *testing.T, path string, content []byte) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	must(t, err)
	found := false
	for _, file := range files {
		all, err := os.ReadFile(file)
		must(t, err)
		found = found || bytes.Contains(all, content)
	}
	return found
}

// TestT22OnlyDigestsAreStored looks for secrets in every file, with and without the log.
func TestT22OnlyDigestsAreStored(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path)
	var secrets []oauth.Secret
	for i := range 20 {
		id := fmt.Sprint("app ", i)
		rotated := oauth.NewClientSecret()
		secrets = append(secrets, addClient(t, s, id), rotated)
		must(t, s.Clients.ChangeClient(t.Context(), id,
			store.RotateSecret(store.ClientSecret{Digest: rotated.Digest(), CreatedAt: time.Now()}, time.Now().Add(time.Hour))))
	}
	look := func() {
		t.Helper()
		for _, secret := range secrets {
			if filesHold(t, path, []byte(secret.Reveal())) {
				t.Error("a file holds a secret")
			}
			if digest := secret.Digest(); !filesHold(t, path, digest[:]) {
				t.Error("the search does not find what is there")
			}
		}
	}
	look()
	must(t, s.Close())
	look()
}

// TestK6UnsealedKeyLeavesTheFiles seals a key that was stored unsealed. Its old bytes must be gone from the database and the log.
func TestK6UnsealedKeyLeavesTheFiles(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path)
	private := []byte(oauth.NewClientSecret().Reveal())
	key := store.StoredKey{ID: "k", Algorithm: oauth.ES256, Private: private}
	must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(key)))
	if !filesHold(t, path, private) {
		t.Fatal("the search does not find what is there")
	}
	sealed := store.StoredKey{ID: "k", Private: []byte("sealed"), SealedWith: "kek"}
	must(t, s.Keys.ChangeKeys(t.Context(), store.ReplaceKeys(store.KeyReplacement{Was: key, Becomes: sealed})))
	if filesHold(t, path, private) {
		t.Error("the unsealed key is still in the files")
	}
}

// TestT22NoCredentialOfPeopleIsStored takes a person through every table. The hash of the password is stored by design. The family's
// columns are compared with a list, because a new column must not hold a credential.
func TestT22NoCredentialOfPeopleIsStored(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path)
	password := oauth.NewSecret("correct horse battery staple")
	hash, err := passwords.NewHasher().Hash(t.Context(), password)
	must(t, err)
	ada := newUser("ada")
	ada.PasswordHash = hash
	must(t, s.Users.AddUser(t.Context(), ada, true))
	must(t, storetest.Done(s.Families.AddFamily(t.Context(), newFamily("family", "ada"))))
	must(t, storetest.Used(s.Families.RedeemCode(t.Context(), "family", store.Redemption{At: time.Now(), Generation: 1, ExpiresAt: time.Now().Add(time.Hour), MaxFailures: 3})))
	must(t, storetest.Used(s.Families.RotateRefreshToken(t.Context(), "family", 1, store.Rotation{At: time.Now()})))
	if filesHold(t, path, []byte(password.Reveal())) {
		t.Error("a file holds the password")
	}
	if !filesHold(t, path, []byte(hash.Reveal())) {
		t.Error("the search does not find what is there")
	}
	rows, err := s.db.read.db.QueryContext(t.Context(), `SELECT * FROM families`)
	must(t, err)
	columns, err := rows.Columns()
	must(t, errors.Join(err, rows.Close()))
	const known = "id user_id user_version user_declared client_id origin provider proof session_id scopes claims audience " +
		"actor_subject actor_client_id note auth_time created_at expires_at revoked_at token_lifetime has_code code_request_id " +
		"code_redirect_uri code_challenge code_nonce code_refreshable code_expires_at code_spent_at code_failures generation rotated_at rotated_by"
	if got := strings.Join(columns, " "); got != known {
		t.Errorf("the columns of families are\n%s, want\n%s", got, known)
	}
}
