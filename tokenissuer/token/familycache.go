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

// FamilyCache caches families that this process saw lately, each with its user, so that a credential used soon after it was issued needs no
// read from the store.
//
// Its entries may be out of date: another node may have redeemed the credential, or ended the family or its user. So they decide nothing
// alone. A credential that looks valid must still be redeemed in the store, by a step that does nothing unless the family is as it was
// cached and its user is active (RedeemCode, RotateRefreshToken). One that does not look valid is looked up in the store.
type FamilyCache struct {
	families *cache.Cache[*rememberedFamily]
}

// NewFamilyCache returns an empty cache.
func NewFamilyCache() *FamilyCache {
	return &FamilyCache{cache.New[*rememberedFamily](maxFamilyBytes)}
}

// Put caches an active family and its active user. A nil cache does nothing.
func (m *FamilyCache) Put(f *store.TokenFamily, user *store.User) {
	if m == nil || f.Origin == store.BrowserSession || f.Origin == store.HostSession {
		return
	}
	r := newRememberedFamily(f, user)
	m.families.Put(f.ID, r, uint64(r.weight))
}

// rememberedFamily is a family and its user as a store would return them. It is immutable.
type rememberedFamily struct {
	family store.TokenFamily
	user   store.User
	weight uint32 // at least the bytes that it takes, with its place in the memory
}

// newRememberedFamily copies a family and its user. It concatenates their texts in one string of its own: a text of a request would keep the
// whole request in memory.
func newRememberedFamily(family *store.TokenFamily, user *store.User) *rememberedFamily {
	r := &rememberedFamily{family: *family, user: *user}
	f, u := &r.family, &r.user
	u.PasswordHash, u.Profile = oauth.Secret{}, nil // no token is made from these as remembered
	for _, at := range [...]*time.Time{
		&f.SignIn.Time, &f.CreatedAt, &f.ExpiresAt, &f.RevokedAt, &f.Refresh.RotatedAt, &f.Code.ExpiresAt, &f.Code.SpentAt, &u.CreatedAt, &u.UpdatedAt,
	} {
		*at = asStored(*at)
	}
	lists := [...]*[]string{(*[]string)(&f.Scopes), &f.Audience, &f.SignIn.Proof.AMR, &u.Groups, &u.ProviderGroups}
	count := 0
	for _, list := range lists {
		*list = slices.Clone(*list)
		count += len(*list)
	}
	var room [48]*string
	texts := append(room[:0],
		&f.ID, &f.User.ID, &f.User.Version, &f.ClientID, (*string)(&f.Origin), &f.Actor.Subject, &f.Actor.ClientID, &f.Note,
		&f.Preconditions.SessionID, &f.Preconditions.ActorVersion, &f.Preconditions.Subject, &f.Code.RequestID, &f.Code.RedirectURI, &f.Code.Challenge, &f.Refresh.RotatedBy,
		&f.SignIn.SessionID, &f.SignIn.Provider, &f.SignIn.Proof.ACR, &f.Code.Nonce, &f.Claims, &u.EmailVerifiedBy, &u.GroupsBy,
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

// Get returns a family and its user as they were seen last. The caller must not change them.
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

// Forget removes a family that was found to be out of date.
func (m *FamilyCache) Forget(id string) {
	if m != nil {
		m.families.Forget(id)
	}
}

// Rotated caches a family after a successful rotation.
func (m *FamilyCache) Rotated(f *store.TokenFamily, user *store.User, r store.Rotation) {
	next := *f
	next.Refresh.Generation, next.Refresh.RotatedAt, next.Refresh.RotatedBy = f.Refresh.Generation+1, r.At, r.By
	m.Put(&next, user)
}

// asStored returns a time as a store would return it.
func asStored(at time.Time) time.Time { return at.UTC().Truncate(time.Microsecond) }
