package seed

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

func TestWhatIsRealWorksAndTheRestWeighs(t *testing.T) {
	for _, test := range []struct {
		name string
		in   func(t *testing.T) Database
	}{
		{"SQLite", func(t *testing.T) Database {
			return Database{Path: filepath.Join(t.TempDir(), "state", "gatehouse.db")}
		}},
		{"PostgreSQL", func(t *testing.T) Database { return Database{DSN: pgtest.Shared(t).Database(t)} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := t.Context()
			plan := Plan{
				Database: test.in(t), Issuer: "http://127.0.0.1:8080", ClientID: "bench", ClientSecret: "secret-of-the-benchmark",
				Families: 1000, Revocations: 100, Real: 40,
			}
			real, err := Fill(ctx, plan)
			if err != nil {
				t.Fatal(err)
			}
			st, err := plan.open(ctx)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			sizes, err := st.Housekeeping.Sizes(ctx)
			if err != nil || sizes.Families != 1000+2*40 || sizes.Revocations != 100 {
				t.Errorf("%+v, %v", sizes, err)
			}
			parts, _, err := plan.issuer(ctx, st.Store)
			if err != nil {
				t.Fatal(err)
			}
			for _, cookie := range real.Cookies {
				if s, err := parts.Sessions.Session(ctx, oauth.NewSecret(cookie)); s == nil || err != nil {
					t.Fatalf("a cookie is of no session: %v", err)
				}
			}
			loaded, err := keys.LoadSigningKeys(ctx, st.Keys, nil, time.Now(), oauth.ES256)
			if err == nil {
				err = parts.Minter.Keys.Replace(loaded, oauth.ES256)
			}
			if err != nil {
				t.Fatal(err)
			}
			parts.Minter.Verifier = token.NewVerifier(plan.Issuer, parts.Minter.Keys, parts.Families.Revocations, time.Hour, time.Now)
			client := clients.Authentication{Readings: []clients.Credential{
				{ID: plan.ClientID, Secret: oauth.NewSecret(plan.ClientSecret)},
			}}
			tokens := grants.New(parts, grants.Accepted{})
			for _, code := range real.Codes {
				_, _, err := tokens.Exchange(ctx, grants.Request{
					GrantType: oauth.AuthorizationCode, Client: client, Code: grants.CodeParameters{Code: oauth.NewSecret(code), RedirectURI: RedirectURI},
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			families, err := st.Families.FamiliesOf(ctx, real.User, time.Now())
			if err != nil || len(families) != familiesOfUser {
				t.Errorf("%d families of a user, %v", len(families), err)
			}
			if err := Backlog(ctx, plan.Database, 300); err != nil {
				t.Fatal(err)
			}
			for more := true; more; {
				if more, err = st.Housekeeping.Drop(ctx, store.ExpiringFamilies, time.Now().Add(-2*store.MaxLifetime)); err != nil {
					t.Fatal(err)
				}
			}
			if sizes, err := st.Housekeeping.Sizes(ctx); err != nil || sizes.Families != 1000+2*40-300 {
				t.Errorf("after the backlog: %+v, %v", sizes, err)
			}
		})
	}
}
