package token

import (
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// A FamilyMemory is bounded by bytes and by number: nothing weighs less than leastFamilyWeight, and most weigh no more.
const (
	maxRememberedFamilies = 8192
	maxFamilyBytes        = 12 << 20
	leastFamilyWeight     = maxFamilyBytes / maxRememberedFamilies
)

// FamilyCache remembers families that this process has seen lately, each with its user, so that a credential which is
// used soon after it was issued costs no question to the store.
//
// What it says may be out of date: another node, or another process on the same file, may have used the credential up, or
// ended the family or its user. So nothing is refused because of it, and nothing is given because of it alone. A
// credential that looks good here still has to be used up in the store, by a step that does nothing unless the family is as
// it was remembered and its user still stands (RedeemCode, RotateRefreshToken); and one that does not is looked up there
// as if nothing were known.
type FamilyCache struct {
	families *cache.Cache[*rememberedFamily]
}

// NewFamilyCache returns one that remembers nothing yet.
func NewFamilyCache() *FamilyCache {
	return &FamilyCache{cache.New[*rememberedFamily](maxFamilyBytes)}
}

// Put remembers a family that lives and its user, who stands. A nil memory remembers nothing.
func (m *FamilyCache) Put(f *store.TokenFamily, user *store.User) {
	if m == nil || f.Origin == store.BrowserSession || f.Origin == store.HostSession {
		return
	}
	r := newRememberedFamily(f, user)
	m.families.Put(f.ID, r, uint64(r.weight))
}

// rememberedFamily is a family and its user as a store would give them. Nobody changes them.
type rememberedFamily struct {
	family store.TokenFamily
	user   store.User
	weight uint32 // at least the bytes that it takes, with its place in the memory
}

// newRememberedFamily copies a family and its user. Their texts become parts of one that is their own: one that came with a
// request would keep all of the request in memory.
func newRememberedFamily(family *store.TokenFamily, user *store.User) *rememberedFamily {
	r := &rememberedFamily{family: *family, user: *user}
	f, u := &r.family, &r.user
	u.PasswordHash, u.Profile = oauth.Secret{}, nil // no token is made from these as remembered
	for _, at := range [...]*time.Time{
		&f.AuthTime, &f.CreatedAt, &f.ExpiresAt, &f.RevokedAt, &f.RotatedAt, &f.Code.ExpiresAt, &f.Code.SpentAt, &u.CreatedAt, &u.UpdatedAt,
	} {
		*at = asStored(*at)
	}
	lists := [...]*[]string{(*[]string)(&f.Scopes), &f.Audience, &f.Proof.AMR, &u.Groups, &u.ProviderGroups}
	count := 0
	for _, list := range lists {
		*list = slices.Clone(*list)
		count += len(*list)
	}
	var room [48]*string
	texts := append(room[:0],
		&f.ID, &f.UserID, &f.UserVersion, &f.ClientID, (*string)(&f.Origin), &f.Actor.Subject, &f.Actor.ClientID, &f.Note,
		&f.Preconditions.SessionID, &f.Preconditions.ActorVersion, &f.Preconditions.Subject, &f.Code.RequestID, &f.Code.RedirectURI, &f.Code.Challenge, &f.RotatedBy,
		&f.SessionID, &f.Provider, &f.Proof.ACR, &f.Code.Nonce, &f.Claims, &u.EmailVerifiedBy, &u.GroupsBy,
		&u.ID, &u.Email, &u.Name, &u.Organisation, (*string)(&u.Role), (*string)(&u.Status), &u.Version)
	for _, list := range lists {
		for i := range *list {
			texts = append(texts, &(*list)[i])
		}
	}
	size := 0
	for _, text := range texts {
		size += len(*text)
	}
	var all strings.Builder
	all.Grow(size)
	for _, text := range texts {
		all.WriteString(*text)
	}
	rest := all.String()
	for _, text := range texts {
		*text, rest = rest[:len(*text)], rest[len(*text):]
	}
	const fixed, header = 256 + int(unsafe.Sizeof(*r)), 16
	r.weight = max(leastFamilyWeight, uint32(fixed+size+header*count))
	return r
}

// Get returns a family and its user as they were seen last; false when nothing is known. Nobody changes them.
func (m *FamilyCache) Get(id string) (*store.TokenFamily, *store.User, bool) {
	if m == nil {
		return nil, nil, false
	}
	known, ok := m.families.Get(id)
	if !ok {
		return nil, nil, false
	}
	return &known.family, &known.user, true
}

// Forget drops a family that turned out to be another than was remembered.
func (m *FamilyCache) Forget(id string) {
	if m != nil {
		m.families.Forget(id)
	}
}

// Rotated remembers what a family is after a rotation that succeeded.
func (m *FamilyCache) Rotated(f *store.TokenFamily, user *store.User, r store.Rotation) {
	next := *f
	next.Generation, next.RotatedAt, next.RotatedBy = f.Generation+1, r.At, r.By
	m.Put(&next, user)
}

// asStored is a time as it comes back from a store.
func asStored(at time.Time) time.Time { return at.UTC().Truncate(time.Microsecond) }
