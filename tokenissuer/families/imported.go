package families

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// maxUnknown bounds how many unknown texts are remembered, and unknownFor how long each is.
	maxUnknown = 16384
	unknownFor = 10 * time.Second
	// askedFor is how long it is remembered whether any token has been imported at all.
	askedFor = 10 * time.Second
	// maxLookups bounds how many texts are looked up at once, maxOfAddress how many of these are from one address, and maxWaitingLookups how
	// many wait for that, each for lookupPatience.
	maxLookups        = 4
	maxOfAddress      = 2
	maxWaitingLookups = 256
	lookupPatience    = time.Second
)

// Imported finds what another authorization server has issued. A flood of unknown texts costs the store little: without imports it is asked
// once in ten seconds, and about the same text not again for ten seconds. Every text is looked up once for whatever it may be, and only a
// few at a time, of which each address has its share. Create one with NewImported.
type Imported struct {
	// AddressOf returns the network address of a request, or "" for what is none. It is set before use; nil: no address has a share.
	AddressOf func(context.Context) string

	families *Families
	// unknown has the digests of unknown texts, and under the empty key whether anything was imported.
	unknown *cache.Cache[bool]
	// hadAny is the last answer of HasImported; nil: there is none yet.
	hadAny atomic.Pointer[bool]
	turns  *fairqueue.Queue
}

// NewImported returns what was imported into the store of the families.
func NewImported(fs *Families) *Imported {
	turns := fairqueue.New(maxLookups, maxWaitingLookups)
	turns.MaxWait = lookupPatience
	return &Imported{families: fs, unknown: cache.New[bool](maxUnknown), turns: turns}
}

// IsImportable reports whether a text can be an opaque token of another server: 16 to 255 characters of a bearer token (RFC 6750 §2.1)
// without a dot, which every JWT has.
func IsImportable(text string) bool {
	return len(text) >= 16 && len(text) <= 255 && !strings.Contains(text, ".") && oauth.IsB64Token(text)
}

// Access returns the imported token with that access token, or nil.
func (i *Imported) Access(ctx context.Context, text oauth.Secret) (*store.ImportedToken, error) {
	t, err := i.find(ctx, text)
	if t == nil || err != nil || t.Access != text.Digest() {
		return nil, err
	}
	return t, nil
}

// Refresh returns the imported token with that refresh token, or nil.
func (i *Imported) Refresh(ctx context.Context, text oauth.Secret) (*store.ImportedToken, error) {
	t, err := i.find(ctx, text)
	if t == nil || err != nil || t.Refresh != text.Digest() {
		return nil, err
	}
	return t, nil
}

// find returns the imported token with that access or refresh token, or nil.
func (i *Imported) find(ctx context.Context, text oauth.Secret) (*store.ImportedToken, error) {
	if !i.MayHave(text.Reveal()) || i.families.Imports == nil {
		return nil, nil
	}
	now, digest := i.families.NodeNow(), text.Digest()
	if _, known := i.unknown.GetAt(string(digest[:]), now); known {
		return nil, nil
	}
	leave, err := i.turns.Enter(ctx, i.shares(ctx)...)
	if err != nil {
		return nil, oauth.Unavailable("imported_tokens_busy", err)
	}
	defer leave()
	if has, err := i.hasAny(ctx, now); !has || err != nil {
		return nil, err
	}
	t, err := i.families.Imports.Imported(ctx, digest)
	if errors.Is(err, store.ErrNotFound) {
		i.unknown.PutFor(string(digest[:]), true, 1, now, now.Add(unknownFor))
		return nil, nil
	}
	return t, err
}

// shares returns what a look-up counts towards. Whoever shows unknown texts is anonymous, also at endpoints where clients authenticate.
func (i *Imported) shares(ctx context.Context) []fairqueue.Share {
	if i.AddressOf == nil {
		return nil
	}
	address := i.AddressOf(ctx)
	if address == "" {
		return nil
	}
	return []fairqueue.Share{{Name: address, Most: maxOfAddress}}
}

// hasAny reports whether anything was imported. While the store cannot say, its last answer counts: a service that never imported anything does
// not depend on the store for the opaque tokens of others.
func (i *Imported) hasAny(ctx context.Context, now time.Time) (bool, error) {
	if has, asked := i.unknown.GetAt("", now); asked {
		return has, nil
	}
	has, err := i.families.Imports.HasImported(ctx)
	if err != nil {
		last := i.hadAny.Load()
		if last == nil {
			return false, err
		}
		has = *last
	}
	i.hadAny.Store(&has)
	i.unknown.PutFor("", has, 1, now, now.Add(askedFor))
	return has, nil
}

// MayHave reports whether a text can be an imported token: it has the form of one, and nothing says that there are none.
func (i *Imported) MayHave(text string) bool {
	if i == nil || !IsImportable(text) { // the store is read by find alone: it may not be open yet
		return false
	}
	has, asked := i.unknown.GetAt("", i.families.NodeNow())
	return has || !asked
}

// ReadRefreshToken returns the family and the generation of a refresh token, and whether it is genuine: ours, or an imported one, which is
// the first of its family.
func (fs *Families) ReadRefreshToken(ctx context.Context, text oauth.Secret) (familyID string, generation int64, genuine bool, err error) {
	if familyID, generation, genuine = fs.Master.ReadRefreshToken(text); genuine {
		return familyID, generation, true, nil
	}
	t, err := fs.Imported.Refresh(ctx, text)
	if t == nil || err != nil || t.FamilyID == "" {
		return familyID, 0, false, err
	}
	return t.FamilyID, 1, true, nil
}
