package signin_test

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// factorPeople are people who can add authenticators.
type factorPeople struct {
	*providerPeople
	*Factors
	ada *store.User
}

func newFactorPeople(t *testing.T) *factorPeople {
	t.Helper()
	p := &factorPeople{providerPeople: newPeople(t)}
	p.providerPeople.Families.Master = testkeys.Master(t, 'f', p.at)
	p.Factors = &Factors{
		FactorPolicy: FactorPolicy{TOTP: true, Name: "Acme"}, Families: p.providerPeople.Families,
	}
	p.ada = p.user("u-ada")
	return p
}

func (p *factorPeople) user(id string) *store.User {
	p.Helper()
	user, err := p.providerPeople.Families.Directory.User(p.Context(), id)
	p.must(err)
	return user
}

// codeAt returns the code that an authenticator of others shows.
func (p *factorPeople) codeAt(secret string, at time.Time) oauth.Secret {
	p.Helper()
	code, err := totp.GenerateCodeCustom(secret, at, totp.ValidateOpts{Period: 30, Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
	p.must(err)
	return oauth.NewSecret(code)
}

// enrols adds an authenticator and returns its secret and the recovery codes. The code that it used is a period old.
func (p *factorPeople) enrols(user *store.User) (string, []oauth.Secret) {
	p.Helper()
	secret := NewSecret()
	codes, err := p.AddAuthenticator(p.Context(), &SignedIn{User: user}, secret, "", p.codeAt(secret, p.at))
	p.must(err)
	p.at = p.at.Add(time.Minute)
	return secret, codes
}

func (p *factorPeople) proves(user *store.User, code oauth.Secret) error {
	_, err := p.Prove(p.Context(), &SignedIn{User: user}, code)
	return err
}

// wants fails unless the error has that reason; empty: there is none.
func (p *factorPeople) wants(err error, reason, what string) {
	p.Helper()
	if got := ""; err != nil {
		if got = oauth.AsError(err).Reason; got != reason {
			p.Errorf("%s: %q, want %q", what, got, reason)
		}
	} else if reason != "" {
		p.Errorf("%s: accepted, want %q", what, reason)
	}
}

// TestW1CodesOfRFC6238: the secret and the times of RFC 6238, Appendix B → the codes of its table, and no other.
func TestW1CodesOfRFC6238(t *testing.T) {
	secret := base32.StdEncoding.EncodeToString([]byte("12345678901234567890"))
	for at, code := range map[int64]string{59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037"} {
		p := newFactorPeople(t)
		p.at = time.Unix(at, 0)
		_, err := p.AddAuthenticator(t.Context(), &SignedIn{User: p.ada}, secret, "", oauth.NewSecret("123456"))
		p.wants(err, "factor_wrong", "another code")
		_, err = p.AddAuthenticator(t.Context(), &SignedIn{User: p.ada}, secret, "", oauth.NewSecret(code))
		p.wants(err, "", fmt.Sprint("the code at ", at))
	}
}

// TestW2ACodeIsForOneUse: a code sent twice, one after the other or at two nodes at once → accepted once, and each later one of an earlier
// period is refused as well.
func TestW2ACodeIsForOneUse(t *testing.T) {
	p := newFactorPeople(t)
	secret, _ := p.enrols(p.ada)
	code := p.codeAt(secret, p.at)
	p.wants(p.proves(p.ada, code), "", "the first use")
	p.wants(p.proves(p.ada, code), "factor_replayed", "the second use")
	p.at = p.at.Add(10 * time.Minute)
	p.wants(p.proves(p.ada, p.codeAt(secret, p.at.Add(30*time.Second))), "", "by a phone that is fast")
	for _, before := range []time.Duration{0, -30 * time.Second} {
		p.wants(p.proves(p.ada, p.codeAt(secret, p.at.Add(before))), "factor_replayed", "of an earlier period")
	}
	p.at = p.at.Add(10 * time.Minute)
	other := *p.Factors // another node
	code = p.codeAt(secret, p.at)
	accepted := make(chan error, 10)
	var all sync.WaitGroup
	for i := range cap(accepted) {
		node := []*Factors{p.Factors, &other}[i%2]
		all.Go(func() {
			if _, err := node.Prove(t.Context(), &SignedIn{User: p.ada}, code); err == nil {
				accepted <- nil
			}
		})
	}
	all.Wait()
	if len(accepted) != 1 {
		t.Errorf("%d of %d were accepted", len(accepted), cap(accepted))
	}
}

// TestW3TheClockOfThePhone: 90 s wrong → refused; a period of 30 s wrong → accepted.
func TestW3TheClockOfThePhone(t *testing.T) {
	for off, reason := range map[int]string{-90: "factor_wrong", -60: "factor_wrong", -30: "", 0: "", 30: "", 60: "factor_wrong", 90: "factor_wrong"} {
		p := newFactorPeople(t)
		secret, _ := p.enrols(p.ada)
		p.at = p.at.Add(time.Hour)
		p.wants(p.proves(p.ada, p.codeAt(secret, p.at.Add(time.Duration(off)*time.Second))), reason, fmt.Sprint(off, " s"))
	}
}

// TestW4WrongCodesArePausedPerPerson: five wrong codes for one user, from any address → the right one is refused for five minutes, and for
// a day after fifty; other users are not held up.
func TestW4WrongCodesArePausedPerPerson(t *testing.T) {
	p := newFactorPeople(t)
	secret, _ := p.enrols(p.ada)
	dora := p.user("u-dora")
	doras, _ := p.enrols(dora)
	wrong := oauth.NewSecret("000000")
	for range 9 {
		for range 5 {
			p.wants(p.proves(p.ada, wrong), "factor_wrong", "a guess")
		}
		p.wants(p.proves(p.ada, p.codeAt(secret, p.at)), "factor_throttled", "the right code")
		p.at = p.at.Add(4*time.Minute + 59*time.Second)
		p.wants(p.proves(p.ada, p.codeAt(secret, p.at)), "factor_throttled", "the right code after 4:59")
		p.at = p.at.Add(time.Second)
	}
	p.wants(p.proves(p.ada, p.codeAt(secret, p.at)), "", "the right code after the pause")
	for range 5 {
		p.wants(p.proves(p.ada, wrong), "factor_wrong", "a guess")
	}
	p.at = p.at.Add(time.Hour)
	p.wants(p.proves(p.ada, p.codeAt(secret, p.at)), "factor_throttled", "the right code after fifty guesses")
	p.wants(p.proves(dora, p.codeAt(doras, p.at)), "", "another user")
	p.at = p.at.Add(24 * time.Hour)
	p.wants(p.proves(p.ada, p.codeAt(secret, p.at)), "", "the right code on the next day")
}

// TestW5ARecoveryCodeIsForOneUse: a recovery code sent twice, or at two nodes at once → accepted once; typed in lower case and without dashes → accepted;
// after new ones were made → refused.
func TestW5ARecoveryCodeIsForOneUse(t *testing.T) {
	p := newFactorPeople(t)
	_, codes := p.enrols(p.ada)
	if len(codes) != 10 {
		t.Fatalf("%d codes", len(codes))
	}
	p.wants(p.proves(p.ada, codes[0]), "", "a code")
	p.wants(p.proves(p.ada, codes[0]), "factor_wrong", "the same code")
	text := []byte(codes[1].Reveal())
	var plain []byte
	for _, c := range text {
		if c != '-' {
			plain = append(plain, c|' ')
		}
	}
	p.wants(p.proves(p.ada, oauth.NewSecret(string(plain))), "", "a code in lower case")
	other := *p.Factors // another node
	accepted := make(chan error, 8)
	var all sync.WaitGroup
	for i := range cap(accepted) {
		node := []*Factors{p.Factors, &other}[i%2]
		all.Go(func() {
			if _, err := node.Prove(t.Context(), &SignedIn{User: p.ada}, codes[2]); err == nil {
				accepted <- nil
			}
		})
	}
	all.Wait()
	if len(accepted) != 1 {
		t.Errorf("%d of %d were accepted", len(accepted), cap(accepted))
	}
	p.at = p.at.Add(5 * time.Minute) // the losers have guessed
	fresh, err := p.ReplaceRecoveryCodes(t.Context(), p.ada)
	p.must(err)
	p.wants(p.proves(p.ada, codes[3]), "factor_wrong", "a replaced code")
	p.wants(p.proves(p.ada, fresh[0]), "", "a new code")
}

// TestW6AFactorIsSealedToItsOwner: the rows of one user's authenticator and recovery codes copied to another user, and the digest of a code
// written beside the seal → they prove nothing and count no code left; neither the secret nor a digest can be read in the store.
func TestW6AFactorIsSealedToItsOwner(t *testing.T) {
	p := newFactorPeople(t)
	dora := p.user("u-dora")
	secret, codes := p.enrols(dora)
	code := strings.ReplaceAll(codes[0].Reveal(), "-", "")
	digest := sha256.Sum256([]byte(code))
	unsealed, err := json.Marshal([][]byte{digest[:]})
	p.must(err)
	plant := func(f store.Factor) {
		f.ID, f.UserID, f.DeclaredEmail = oauth.NewID(), p.ada.ID, ""
		p.must(p.Factors.Families.Store.AddFactor(t.Context(), &f, p.ada.Version))
		if left := p.CodesLeft(&f); left != 0 {
			t.Errorf("%d codes are left", left)
		}
		p.at = p.at.Add(5 * time.Minute) // the tries with the row before are forgotten
		for what, typed := range map[string]oauth.Secret{"authenticator": p.codeAt(secret, p.at), "recovery codes": codes[0]} {
			if err := p.proves(p.ada, typed); err == nil {
				t.Errorf("the %s of another row were accepted", what)
			}
		}
	}
	own, err := p.Of(t.Context(), dora)
	p.must(err)
	for _, f := range own {
		if data := string(f.Data); strings.Contains(data, secret) || strings.Contains(data, base64.StdEncoding.EncodeToString(digest[:])) {
			t.Errorf("the %s are stored in the clear", f.Kind)
		}
		plant(*f)
	}
	plant(store.Factor{Kind: store.RecoveryCodes, Data: unsealed, CreatedAt: p.at})
	p.wants(p.proves(dora, codes[0]), "", "the code of its owner")
}

// TestW7TwoTabsEnrolAtOnce: a user adds an authenticator in two tabs → the second is told that there is one, and its secret proves nothing.
func TestW7TwoTabsEnrolAtOnce(t *testing.T) {
	p := newFactorPeople(t)
	first, _ := p.enrols(p.ada)
	second := NewSecret()
	_, err := p.AddAuthenticator(t.Context(), &SignedIn{User: p.ada}, second, "", p.codeAt(second, p.at))
	p.wants(err, ErrEnrolled.Reason, "the second tab")
	p.wants(p.proves(p.ada, p.codeAt(second, p.at.Add(30*time.Second))), "factor_wrong", "its secret")
	p.wants(p.proves(p.ada, p.codeAt(first, p.at)), "", "the first secret")
}

// TestW83TheLastTwoFactorsAreRemovedAtOnce: two tabs or nodes remove the last two factors of a user at once → the recovery codes go too, and the next
// factor comes with new ones.
func TestW83TheLastTwoFactorsAreRemovedAtOnce(t *testing.T) {
	p := newFactorPeople(t)
	for i := range 20 {
		p.enrols(p.ada)
		id := fmt.Sprint("passkey ", i)
		p.must(p.Factors.Families.Store.AddFactor(t.Context(), &store.Factor{
			ID: id, UserID: p.ada.ID, DeclaredEmail: p.ada.DeclaredEmail(), Kind: store.Passkey, Data: []byte("x"), Credential: id, CreatedAt: p.at,
		}, p.ada.Version))
		own, err := p.Of(t.Context(), p.ada)
		p.must(err)
		var all sync.WaitGroup
		for _, f := range own {
			if f.IsSecond() {
				all.Go(func() { p.must(p.Remove(t.Context(), p.ada, f.ID)) })
			}
		}
		all.Wait()
		if own, err = p.Of(t.Context(), p.ada); err != nil || len(own) > 0 {
			t.Fatalf("%d factors are left, %v", len(own), err)
		}
	}
}

// TestW8WhoNeedsASecondFactor: a rule by role, group, organisation or for everybody → DemandOf and Suffices hold it for those users, whatever
// the first factor was, and not for a provider that is trusted with it.
func TestW8WhoNeedsASecondFactor(t *testing.T) {
	p := newFactorPeople(t)
	password := store.Proof{ACR: oauth.PasswordACR, AMR: []string{"pwd"}}
	for name, c := range map[string]struct {
		rule FactorRule
		who  SignedIn
		want Demand
	}{
		"no rule":                     {FactorRule{}, SignedIn{User: p.ada, Proof: password}, NothingMore},
		"everybody":                   {FactorRule{Everybody: true}, SignedIn{User: p.ada, Proof: password}, AskEnrolment},
		"organisation":                {FactorRule{Organisations: []string{"acme"}}, SignedIn{User: p.ada, Proof: password}, AskEnrolment},
		"another organisation":        {FactorRule{Organisations: []string{"other"}}, SignedIn{User: p.ada, Proof: password}, NothingMore},
		"group":                       {FactorRule{Groups: []string{"founders"}}, SignedIn{User: p.ada, Proof: password}, AskEnrolment},
		"role":                        {FactorRule{Roles: []string{"member"}}, SignedIn{User: &store.User{ID: "x", Role: "member"}, Proof: password}, AskEnrolment},
		"a directory":                 {FactorRule{Everybody: true}, SignedIn{User: p.ada, Provider: "corp", Proof: password}, AskEnrolment},
		"a provider":                  {FactorRule{Everybody: true}, SignedIn{User: p.ada, Provider: "google"}, AskEnrolment},
		"a trusted provider":          {FactorRule{Everybody: true}, SignedIn{User: p.ada, Provider: "trusted"}, NothingMore},
		"a provider without the rule": {FactorRule{}, SignedIn{User: p.ada, Provider: "google"}, NothingMore},
		"two factors":                 {FactorRule{Everybody: true}, SignedIn{User: p.ada, Proof: store.Proof{ACR: oauth.TwoFactorACR}}, NothingMore},
	} {
		p.Required, p.TrustedProviders = c.rule, []string{"trusted"}
		got, err := p.DemandOf(t.Context(), c.who, false)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
		for _, origin := range []oauth.GrantType{store.BrowserSession, store.HostSession, oauth.AuthorizationCode, oauth.PasswordGrant} {
			f := &store.TokenFamily{Grant: store.Grant{Origin: origin}, SignIn: store.SignIn{Proof: c.who.Proof, Provider: c.who.Provider}}
			if suffices := p.Suffices(f, c.who.User); suffices != (c.want == NothingMore) {
				t.Errorf("%s: a family of %s suffices: %t", name, origin, suffices)
			}
		}
	}
	p.Required = FactorRule{}
	p.enrols(p.ada)
	if got, err := p.DemandOf(t.Context(), SignedIn{User: p.ada, Proof: password}, false); err != nil || got != AskFactor {
		t.Errorf("a user with a factor: %v, %v", got, err)
	}
}

// TestW9AHalfSignInIsForOneBrowserAndTenMinutes: a sealed sign-in in another browser, after ten minutes, or after its user has changed →
// refused.
func TestW9AHalfSignInIsForOneBrowserAndTenMinutes(t *testing.T) {
	p := newFactorPeople(t)
	seals := &Seals{Families: p.Factors.Families}
	browser := NewBrowser()
	sealed, err := seals.SealHalfSignIn(SignedIn{User: p.ada, Login: "ada@acme.example"}, HalfSignIn{ID: "form"}, browser)
	p.must(err)
	open := func(browser oauth.Secret) error {
		_, _, err := seals.OpenHalfSignIn(t.Context(), sealed, browser)
		return err
	}
	p.wants(open(browser), "", "at once")
	p.wants(open(NewBrowser()), "seal_broken", "another browser")
	p.at = p.at.Add(10*time.Minute + time.Second)
	p.wants(open(browser), "seal_expired", "after ten minutes")
	p.at = p.at.Add(-10 * time.Minute)
	p.must(p.registry.People.SetUserStatus(t.Context(), p.ada.ID, store.UserDisabled))
	p.wants(open(browser), "user_changed", "a disabled user")
}
