package signin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// knows reports whether an identity belongs to the provider that has its name now.
func (r Rules) knows(i store.Identity) bool { return r.knowsSource(i.Source) }

func (r Rules) knowsSource(source string) bool {
	return source == r.Source || slices.Contains(r.Formerly, source)
}

// CheckSource returns an error if accounts of another provider are stored under the provider's name. Otherwise a person could be taken for
// another whom the other provider calls the same. The error is temporarily_unavailable if the store fails.
func (r Rules) CheckSource(ctx context.Context, stored store.IdentityStore, provider string) error {
	sources, err := stored.IdentitySources(ctx, provider)
	if err != nil {
		return err
	}
	slices.Sort(sources)
	for _, source := range sources {
		if r.knowsSource(source) {
			continue
		}
		kind, url, _ := strings.Cut(source, " ")
		advice := "give it another name"
		if strings.HasPrefix(r.Source, kind+" ") {
			advice += fmt.Sprintf(", or write `formerly %s` into it if it has moved and calls the same people by the same identifiers", url)
		}
		return fmt.Errorf("people have signed in by this name at another provider, %s, and whom both call the same would share a user: %s; "+
			"`caddy oauth user update <id> --identities unlink` takes the other's accounts from a user", source, advice)
	}
	return nil
}
