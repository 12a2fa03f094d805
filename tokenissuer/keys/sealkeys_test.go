package keys_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// sealedIssuer is the issuer of sealerOf.
const sealedIssuer = "https://issuer.example"

// keyShelf is a KeyStore whose rows a test can write, as an attacker with access to the database can.
type keyShelf struct {
	store.KeyStore
	tb   testing.TB
	now  time.Time
	seal *Sealer
}

func newKeyShelf(tb testing.TB, sealer *Sealer) *keyShelf {
	tb.Helper()
	return &keyShelf{KeyStore: teststore.New(tb).Keys, tb: tb, now: tokentest.Start, seal: sealer}
}

func (s *keyShelf) rows() []store.StoredKey {
	s.tb.Helper()
	rows, err := s.SigningKeys(s.tb.Context())
	if err != nil {
		s.tb.Fatal(err)
	}
	return withoutManifest(rows)
}

func withoutManifest(rows []store.StoredKey) []store.StoredKey {
	return slices.DeleteFunc(rows, func(row store.StoredKey) bool { return row.Algorithm == "manifest" })
}

// row returns the master key, or the oldest signing key.
func (s *keyShelf) row(master bool) store.StoredKey {
	s.tb.Helper()
	for _, row := range s.rows() {
		if isMaster(row) == master {
			return row
		}
	}
	s.tb.Fatal("the key is not stored")
	return store.StoredKey{}
}

func isMaster(row store.StoredKey) bool { return row.Algorithm == "HKDF-SHA256" }

// put replaces the rows with the same ids, and keeps the manifest.
func (s *keyShelf) put(rows ...store.StoredKey) {
	s.tb.Helper()
	s.BindKeys(nil)
	for _, row := range rows {
		if err := errors.Join(s.ChangeKeys(s.tb.Context(), store.DropKey(row.ID)), s.ChangeKeys(s.tb.Context(), store.AddKey(row))); err != nil {
			s.tb.Fatal(err)
		}
	}
}

// open opens the keys as a node does. It returns the Sealing, the ids of the signing keys and the master key.
func (s *keyShelf) open(settled bool) (Sealing, []string, *MasterKey, error) {
	s.tb.Helper()
	ctx := s.tb.Context()
	found, err := Seal(ctx, s, s.seal, settled)
	if err != nil {
		return found, nil, nil, err
	}
	keys, err := LoadSigningKeys(ctx, s, s.seal, s.now, oauth.EdDSA)
	if err != nil {
		return found, nil, nil, err
	}
	var ids []string
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	master, err := LoadMasterKey(ctx, s, s.seal, s.now)
	return found, ids, master, err
}

// mustOpen is open for a good store.
func (s *keyShelf) mustOpen() (ids []string, master *MasterKey) {
	s.tb.Helper()
	_, ids, master, err := s.open(false)
	if err != nil {
		s.tb.Fatal(err)
	}
	return ids, master
}

// inClear returns what a node without a key-encryption key stores: a signing key and a master key.
func inClear(tb testing.TB) []store.StoredKey {
	tb.Helper()
	s := newKeyShelf(tb, nil)
	s.mustOpen()
	return s.rows()
}

// TestK16APlantedKeyIsRefused: with `encrypt_with`, a key row planted in the clear, copied or changed → not used, published or sealed,
// and steers nothing.
func TestK16APlantedKeyIsRefused(t *testing.T) {
	sealer := sealerOf(t, firstKEK)
	for name, planted := range map[string][]store.StoredKey{
		"as old as the good ones": inClear(t),
		"older":                   older(inClear(t), -time.Hour),
		"younger":                 older(inClear(t), time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			s := newKeyShelf(t, sealer)
			ids, master := s.mustOpen()
			now := tokentest.Start.Add(time.Minute)
			running := s.ring(&now)
			s.put(planted...)

			running.refresh()
			if len(running.warnings) != 1 || !errors.Is(running.warnings[0], ErrRefused) || !strings.Contains(running.warnings[0].Error(), signingOf(planted).ID) {
				t.Errorf("the running node warns %v", running.warnings)
			}
			running.maintain()
			if len(running.warnings) != 1+len(planted) {
				t.Errorf("after the housekeeping it warns %v", running.warnings)
			}
			if running.signing() != ids[0] || len(running.published()) != 1 || running.states()[signingOf(planted).ID] != StateRefused {
				t.Errorf("it signs with %s of %v: %v", running.signing(), running.published(), running.states())
			}
			found, again, sameKey, err := s.open(false)
			if err != nil || !slices.Equal(again, ids) || !sameMaster(t, sameKey, master) {
				t.Errorf("after a restart the keys are %v, %v", again, err)
			}
			if len(found.Refused) != len(planted) || found.InClear != 0 {
				t.Errorf("the start finds %+v", found)
			}
			for _, row := range s.rows() {
				if i := slices.IndexFunc(planted, func(p store.StoredKey) bool { return p.ID == row.ID }); i >= 0 && row.SealedWith != planted[i].SealedWith {
					t.Errorf("the planted %s was sealed", row.Algorithm)
				}
			}
			// An operator revokes it like any other key.
			if _, err := running.Revoke(t.Context(), signingOf(planted).ID); err != nil || running.states()[signingOf(planted).ID] != StateRevoked {
				t.Errorf("revoking it: %v, %v", err, running.states())
			}
		})
	}
}

func older(rows []store.StoredKey, by time.Duration) []store.StoredKey {
	for i := range rows {
		rows[i].CreatedAt, rows[i].ActiveFrom = rows[i].CreatedAt.Add(by), rows[i].ActiveFrom.Add(by)
	}
	return rows
}

func signingOf(rows []store.StoredKey) store.StoredKey {
	return rows[slices.IndexFunc(rows, func(row store.StoredKey) bool { return !isMaster(row) })]
}

// ring returns a running node on the shelf.
func (s *keyShelf) ring(clock *time.Time) *ring {
	s.tb.Helper()
	n := &ring{tb: s.tb, clock: clock}
	n.Ring = &Ring{
		Store: s, Sealer: s.seal, Algorithms: []oauth.Algorithm{oauth.EdDSA}, Keys: new(Set), Rotation: 90 * day, Now: func() time.Time { return *clock },
		Warn: func(err error) { n.warnings = append(n.warnings, err) },
	}
	n.start()
	return n
}

// TestK16PlantedKeysDoNotSteerTheRing: a planted key that claims to sign next does not prevent the next key from
// being made. One that claims to be a successor drops no key. One that claims to sign does not leave its node without
// a key when the real one is revoked.
func TestK16PlantedKeysDoNotSteerTheRing(t *testing.T) {
	s := newKeyShelf(t, sealerOf(t, firstKEK))
	ids, _ := s.mustOpen()
	now := tokentest.Start
	n := s.ring(&now)
	bound := signingOf(s.rows())
	garbage := signingOf(inClear(t))
	garbage.SealedWith = bound.SealedWith
	for _, planted := range []store.StoredKey{signingOf(inClear(t)), garbage} {
		planted.ActiveFrom = tokentest.Start.Add(88 * day)
		s.put(planted)
	}
	if now = tokentest.Start.Add(88*day + store.MaxLifetime + 2*day); n.maintain().Published == nil {
		t.Error("the next key does not come")
	}
	if rows := s.rows(); !slices.ContainsFunc(rows, func(row store.StoredKey) bool { return row.ID == ids[0] }) {
		t.Error("the key that signs was dropped")
	}
	before := len(s.rows())
	if _, err := n.Revoke(t.Context(), ids[0]); err != nil || len(s.rows()) != before+1 {
		t.Errorf("the key that signs was revoked, and none came in its place: %v", err)
	}
}

// TestK20AKeyThatPretendsToBeSealed: a key row that was never sealed and names the key-encryption key → refused; start and housekeeping go on with
// the good keys.
func TestK20AKeyThatPretendsToBeSealed(t *testing.T) {
	for name, forge := range map[string]func(row, good *store.StoredKey){
		"its own key in the clear":    func(*store.StoredKey, *store.StoredKey) {},
		"a good row's key":            func(row, good *store.StoredKey) { row.Private = good.Private },
		"a good row under another id": func(row, good *store.StoredKey) { id := row.ID; *row = *good; row.ID = id },
		"an unknown encryption key":   func(row, _ *store.StoredKey) { row.SealedWith = "0123456789abcdef" },
		"an older encryption key":     func(row, _ *store.StoredKey) { row.SealedWith = sealerOf(t, secondKEK).ID },
	} {
		t.Run(name, func(t *testing.T) {
			s := newKeyShelf(t, sealerOver(t, firstKEK, secondKEK))
			ids, master := s.mustOpen()
			now := tokentest.Start
			n := s.ring(&now)
			planted := inClear(t)
			for i := range planted {
				good := s.row(isMaster(planted[i]))
				planted[i].SealedWith = good.SealedWith
				forge(&planted[i], &good)
			}
			s.put(planted...)
			found, again, same, err := s.open(true)
			if err != nil || !slices.Equal(again, ids) || !sameMaster(t, same, master) || len(found.Refused) != 2 {
				t.Fatalf("after a restart the keys are %v, %v; refused: %v", again, err, found.Refused)
			}
			n.refresh()
			now = tokentest.Start.Add(90 * day)
			if n.maintain().Published == nil || len(n.warnings) != 3 || !errors.Is(n.warnings[0], ErrRefused) {
				t.Errorf("the next key does not come, or nobody is told: %v", n.warnings)
			}
			id := signingOf(planted).ID
			if state := n.states()[id]; state != StateRefused || n.published()[id] {
				t.Errorf("it is listed as %s", state)
			}
			if _, err := n.Revoke(t.Context(), id); err != nil || n.states()[id] != StateRevoked {
				t.Errorf("revoking it: %v, %v", err, n.states())
			}
		})
	}
}

// TestK20AKeyInTheClearBesideOneThatClaimsToBeSealed: one row claims to be sealed, so no row is accepted.
func TestK20AKeyInTheClearBesideOneThatClaimsToBeSealed(t *testing.T) {
	s := newKeyShelf(t, sealerOf(t, firstKEK))
	planted := inClear(t)
	for i := range planted {
		planted[i].SealedWith = s.seal.ID
	}
	s.put(append(inClear(t), planted...)...)
	if found, _, _, err := s.open(false); !errors.Is(err, ErrRefused) || found.InClear > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestK20AKeyInThePlaceOfTheFirst: a refused key of the algorithm that is configured next does not prevent its first
// key from being made, while there are good keys of another algorithm. The same holds where all good keys were
// revoked.
func TestK20AKeyInThePlaceOfTheFirst(t *testing.T) {
	s := newKeyShelf(t, sealerOf(t, firstKEK))
	ids, _ := s.mustOpen()
	planted, err := NewSigningKey(oauth.ES256, tokentest.Start)
	if err != nil {
		t.Fatal(err)
	}
	row, err := planted.Stored(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.put(row)
	keys, err := LoadSigningKeys(t.Context(), s, s.seal, tokentest.Start, oauth.ES256)
	if err != nil || len(keys) != 2 || slices.ContainsFunc(keys, func(k *SigningKey) bool { return k.ID == row.ID }) {
		t.Errorf("%v, %v", keys, err)
	}
	if again, err := LoadSigningKeys(t.Context(), s, s.seal, tokentest.Start, oauth.ES256); err != nil || len(again) != 2 {
		t.Errorf("the second start: %v, %v", again, err)
	}

	now := tokentest.Start.Add(time.Second)
	n := s.ring(&now)
	s.put(signingOf(inClear(t)))
	other := &Ring{Store: s, Sealer: s.seal, Algorithms: []oauth.Algorithm{oauth.ES256}, Keys: new(Set), Now: n.Now}
	if _, err := other.Revoke(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	if n.refresh(); n.signing() == ids[0] || n.published()[ids[0]] {
		t.Errorf("%s signs", n.signing())
	}
}

// TestK16AChangedRowIsRefused: every field of a row is bound to the key-encryption key and to the issuer.
func TestK16AChangedRowIsRefused(t *testing.T) {
	for _, master := range []bool{false, true} {
		foreign := newKeyShelf(t, sealerFor(t, "https://other.example"))
		foreign.mustOpen()
		swapped := newKeyShelf(t, sealerOf(t, firstKEK))
		swapped.mustOpen()
		other := swapped.row(master)
		for name, change := range map[string]func(*store.StoredKey){
			"algorithm":         func(k *store.StoredKey) { k.Algorithm = oauth.ES256 },
			"created earlier":   func(k *store.StoredKey) { k.CreatedAt = k.CreatedAt.Add(-time.Microsecond) },
			"never created":     func(k *store.StoredKey) { k.CreatedAt = time.Time{} },
			"active later":      func(k *store.StoredKey) { k.ActiveFrom = k.ActiveFrom.Add(time.Microsecond) },
			"active never said": func(k *store.StoredKey) { k.ActiveFrom = time.Time{} },
			"another id":        func(k *store.StoredKey) { k.ID = other.ID },
			"another's key":     func(k *store.StoredKey) { k.Private = other.Private },
			"a bit of the key":  func(k *store.StoredKey) { k.Private[len(k.Private)-1] ^= 1 },
			"cut":               func(k *store.StoredKey) { k.Private = k.Private[:5] },
			"not sealed":        func(k *store.StoredKey) { k.SealedWith = "" },
			"of another issuer": func(k *store.StoredKey) { *k = foreign.row(master) },
		} {
			s := newKeyShelf(t, sealerOf(t, firstKEK))
			ids, _ := s.mustOpen()
			now := tokentest.Start.Add(time.Second)
			n := s.ring(&now)
			was, row := s.row(master), s.row(master)
			change(&row)
			s.BindKeys(nil)
			if err := s.ChangeKeys(t.Context(), store.DropKey(was.ID)); err != nil {
				t.Fatal(err)
			}
			s.put(row)
			failure := n.Refresh(t.Context()) // a node with no good key left goes on with what it has
			if !isMaster(row) && (len(n.warnings) == 0 || n.signing() != ids[0]) || isMaster(row) && !master && failure == nil {
				t.Errorf("master %t, %s: the running node signs with %s and warns %v", master, name, n.signing(), n.warnings)
			}
			if _, loaded, _, err := s.open(true); err == nil {
				t.Errorf("master %t, %s: opened %v", master, name, loaded)
			} else if name == "algorithm" && !strings.Contains(err.Error(), "its row was changed") {
				t.Errorf("master %t, %s: %v", master, name, err)
			} else if name == "of another issuer" && !strings.Contains(err.Error(), "another issuer than https://issuer.example") {
				t.Errorf("master %t, %s: %v", master, name, err)
			}
		}
	}
}

func sealerFor(t *testing.T, issuer string) *Sealer {
	t.Helper()
	sealer, err := NewSealer(issuer, oauth.NewSecret(firstKEK))
	if err != nil {
		t.Fatal(err)
	}
	return sealer
}

// TestK17EverythingIsSealedOnce: `encrypt_with` for the first time → every key is sealed and bound in one step; rows
// in the clear are refused from then on. If the store fails, nothing changes.
func TestK17EverythingIsSealedOnce(t *testing.T) {
	faulty, rows := NewFaultyStore(t), inClear(t)
	s := &keyShelf{KeyStore: faulty, tb: t, now: tokentest.Start, seal: sealerOf(t, firstKEK)}
	s.put(rows...)
	faulty.Fail("replacing signing keys")
	if _, _, _, err := s.open(false); err == nil || !slices.EqualFunc(s.rows(), sorted(rows), sameRow) {
		t.Fatalf("%v, and the rows are %v", err, s.rows())
	}
	faulty.Fail("")
	found, ids, master, err := s.open(false)
	if err != nil || found.InClear != 2 || len(found.Refused) > 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	if len(ids) != 1 || ids[0] != signingOf(rows).ID {
		t.Errorf("the keys are %v", ids)
	}
	after := s.rows()
	again, sameIDs, same, err := s.open(false)
	if err != nil || again.InClear+len(again.Refused) != 0 || !slices.Equal(sameIDs, ids) || !sameMaster(t, same, master) {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	if !slices.EqualFunc(s.rows(), after, sameRow) {
		t.Error("it is sealed again and again")
	}
	// From now on the same key in the clear is refused, and its node does not start without the key-encryption key.
	s.put(rows...)
	if _, _, _, err := s.open(true); !errors.Is(err, ErrRefused) {
		t.Errorf("in the clear again: %v", err)
	}
}

func sorted(rows []store.StoredKey) []store.StoredKey {
	return slices.SortedFunc(slices.Values(rows), func(a, b store.StoredKey) int {
		if order := a.CreatedAt.Compare(b.CreatedAt); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})
}

func sameRow(a, b store.StoredKey) bool {
	return a.ID == b.ID && a.SealedWith == b.SealedWith && string(a.Private) == string(b.Private)
}

// TestK17KeysInTheClearAreRefusedBesideSealedOnes also checks that a missing key is not made again while a refused
// key has its place.
func TestK17KeysInTheClearAreRefusedBesideSealedOnes(t *testing.T) {
	s := newKeyShelf(t, sealerOf(t, firstKEK))
	ids, _ := s.mustOpen()
	clear := inClear(t)
	s.put(clear...)
	found, got, _, err := s.open(false)
	if err != nil || !slices.Equal(got, ids) || found.InClear != 0 || len(found.Refused) != 2 {
		t.Errorf("%v, %+v, %v", got, found, err)
	}
	for _, row := range s.rows() {
		if row.ID != clear[0].ID && row.ID != clear[1].ID {
			if err := s.ChangeKeys(t.Context(), store.DropKey(row.ID)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, _, _, err := s.open(true); !errors.Is(err, ErrRefused) {
		t.Errorf("with planted keys alone: %v", err)
	}
}

// TestK17ANodeThatSealsMeanwhile: a node that seals the keys meanwhile causes no error. The keys are read again,
// however many nodes do so at once.
func TestK17ANodeThatSealsMeanwhile(t *testing.T) {
	s := newKeyShelf(t, sealerOf(t, firstKEK))
	s.put(inClear(t)...)
	for _, err := range tokentest.Together(8, func(int) error {
		_, err := Seal(context.Background(), s, s.seal, false)
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	if _, _, _, err := s.open(true); err != nil {
		t.Error(err)
	}
}
