package tokenissuer

import (
	"context"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"
)

// A FamilyMemory is bounded by bytes and by number: nothing weighs less than leastFamilyWeight. Most take half of that.
const (
	maxRememberedFamilies = 8192
	maxFamilyBytes        = 8 << 20
	leastFamilyWeight     = maxFamilyBytes / maxRememberedFamilies
)

// FamilyMemory remembers families that this process has seen lately, each with its user, so that a credential which is
// used soon after it was issued costs no question to the store.
//
// What it says may be out of date: another node, or another process on the same file, may have used the credential up, or
// ended the family or its user. So nothing is refused because of it, and nothing is given because of it alone. A
// credential that looks good here still has to be used up in the store, by a step that does nothing unless the family is as
// it was remembered and its user still stands (RedeemCode, RotateRefreshToken); and one that does not is looked up there
// as if nothing were known.
type FamilyMemory struct {
	families *otter.Cache[string, *packedFamily]
}

// NewFamilyMemory returns one that remembers nothing yet.
func NewFamilyMemory() *FamilyMemory {
	return &FamilyMemory{otter.Must(&otter.Options[string, *packedFamily]{
		MaximumWeight: maxFamilyBytes,
		Weigher:       func(_ string, p *packedFamily) uint32 { return p.weight() },
	})}
}

// put remembers a family that lives and its user, who stands. A nil memory remembers nothing.
func (m *FamilyMemory) put(f *TokenFamily, user *User) {
	if m == nil || f.Origin == BrowserSession {
		return
	}
	packed := packFamily(f, user)
	m.families.Set(strings.Clone(packed.id()), packed) // a key stays when its value is replaced, and would keep the first text
}

// forget drops a family that turned out to be another than was remembered.
func (m *FamilyMemory) forget(id string) {
	if m != nil {
		m.families.Invalidate(id)
	}
}

// remembered returns a family and its user as they were seen last; nil when nothing is known, or when something is that
// speaks against them.
func (is *Issuer) remembered(id string) (*TokenFamily, *User) {
	if is.Families == nil {
		return nil, nil
	}
	known, ok := is.Families.families.GetIfPresent(id)
	if !ok {
		return nil, nil
	}
	family, user := known.unpack()
	if is.Revocations.RevokedFamily(family, user.Organisation) {
		return nil, nil
	}
	return family, user
}

// rotated remembers what a family is after a rotation that succeeded.
func (m *FamilyMemory) rotated(f *TokenFamily, user *User, r Rotation) {
	next := *f
	next.Generation, next.RotatedAt, next.RotatedBy = f.Generation+1, asStored(r.At), r.By
	m.put(&next, user)
}

// asStored is a time as it comes back from a store.
func asStored(at time.Time) time.Time { return at.UTC().Truncate(time.Microsecond) }

// standingUser returns the user who was remembered with a family, or else asks for the one who may still stand for it.
func (is *Issuer) standingUser(ctx context.Context, f *TokenFamily, remembered *User) (*User, error) {
	if remembered != nil {
		return remembered, nil
	}
	user, err := is.livingUser(ctx, f)
	if err == nil && user == nil {
		err = NewError(InvalidGrant, "user_changed")
	}
	return user, err
}
