package families

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// maxUnknown bounds how many unknown texts are remembered, and unknownFor how long each is.
	maxUnknown = 16384
	unknownFor = 10 * time.Second
	// noneFor is how long it is remembered that no token has been imported at all.
	noneFor = 10 * time.Second
)

// Imported finds what another authorization server has issued. A flood of unknown texts costs the store little: without imports it is asked
// once in ten seconds, and about the same text not again for ten seconds. Create one with NewImported.
type Imported struct {
	families *Families
	unknown  *cache.Cache[struct{}]
}

// NewImported returns what was imported into the store of the families.
func NewImported(fs *Families) *Imported { return &Imported{fs, cache.New[struct{}](maxUnknown)} }

// IsImportable reports whether a text can be an opaque token of another server: 16 to 255 characters of a bearer token (RFC 6750 §2.1)
// without a dot, which every JWT has.
func IsImportable(text string) bool {
	return len(text) >= 16 && len(text) <= 255 && !strings.Contains(text, ".") && oauth.IsB64Token(text)
}

// The keys of Imported.unknown: none, or a letter before a digest.
const (
	none           = "none"
	unknownAccess  = "a"
	unknownRefresh = "r"
)

// Access returns the imported token with that access token, or nil.
func (i *Imported) Access(ctx context.Context, text oauth.Secret) (*store.ImportedToken, error) {
	return i.find(ctx, unknownAccess, text, func(digest [32]byte) (*store.ImportedToken, error) {
		return i.families.Imports.ImportedAccess(ctx, digest)
	})
}

// Refresh returns the imported token with that refresh token, or nil.
func (i *Imported) Refresh(ctx context.Context, text oauth.Secret) (*store.ImportedToken, error) {
	return i.find(ctx, unknownRefresh, text, func(digest [32]byte) (*store.ImportedToken, error) {
		return i.families.Imports.ImportedRefresh(ctx, digest)
	})
}

func (i *Imported) find(ctx context.Context, kind string, text oauth.Secret, find func([32]byte) (*store.ImportedToken, error)) (*store.ImportedToken, error) {
	if !i.MayHave(text.Reveal()) {
		return nil, nil
	}
	now, digest := i.families.NodeNow(), text.Digest()
	key := kind + string(digest[:])
	if _, known := i.unknown.GetAt(key, now); known {
		return nil, nil
	}
	t, err := find(digest)
	if !errors.Is(err, store.ErrNotFound) {
		return t, err
	}
	i.unknown.PutFor(key, struct{}{}, 1, now, now.Add(unknownFor))
	if has, err := i.families.Imports.HasImported(ctx); err == nil && !has {
		i.unknown.PutFor(none, struct{}{}, 1, now, now.Add(noneFor))
	}
	return nil, nil
}

// MayHave reports whether a text can be an imported token: it has the form of one, and nothing says that there are none.
func (i *Imported) MayHave(text string) bool {
	if i == nil || i.families.Imports == nil || !IsImportable(text) {
		return false
	}
	_, known := i.unknown.GetAt(none, i.families.NodeNow())
	return !known
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
