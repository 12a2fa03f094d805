package webauthn_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/passkeytest"
	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/webauthn"
)

const (
	origin  = "https://auth.example.com"
	address = "192.0.2.1"
)

// scene is an issuer at which the stored users u-ada and u-ben and the declared user u-dora can have passkeys. Only the test advances its
// clock.
type scene struct {
	*testing.T
	RelyingParty
	stored   *sqlstore.Store
	declared *store.User
	at       time.Time
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, stored: teststore.New(t), at: time.Unix(1_800_000_000, 0).UTC()}
	s.declared = &store.User{ID: "u-dora", Email: "dora@example.com", Name: "Dora", Status: store.UserActive, External: true, PasswordHash: password}
	s.must(s.stored.Users.AddOrganisation(t.Context(), &store.Organisation{ID: "acme", Name: "Acme"}))
	for _, name := range []string{"ada", "ben"} {
		s.must(s.stored.Users.AddUser(t.Context(), &store.User{
			ID: "u-" + name, Email: name + "@example.com", Name: name, Organisation: "acme", Status: store.UserActive, External: true, CreatedAt: s.at.Add(-time.Hour), PasswordHash: password,
		}, false))
	}
	now := func() time.Time { return s.at }
	limits := &attempts.Limits{AddressLimit: attempts.Limit{Failures: 5, Window: time.Minute}, Attempts: attempts.NewCounter(1000)}
	fs := &families.Families{
		Opened: families.Opened{Store: families.StoreOf(s.stored.Store), Master: testkeys.Master(t, 'p', s.at)},
		Now:    now, NodeNow: now, Revocations: token.NewRevocationSet(), Limits: limits,
	}
	s.RelyingParty = RelyingParty{ID: "auth.example.com", Origin: origin, Alone: true, SignIns: &signin.SignIns{
		Families: fs, Limits: limits,
		Factors: &signin.Factors{Families: fs, FactorPolicy: signin.FactorPolicy{TOTP: true, Passkeys: true, RelyingParty: "auth.example.com", Name: "Acme"}},
	}}
	s.declares(s.declared)
	return s
}

// password is a hash that no test verifies.
var password = oauth.NewSecret("$2a$04$abcdefghijklmnopqrstuuZ7ZmX5rQ9rQ9rQ9rQ9rQ9rQ9rQ9rQ9r")

// declares changes who is declared by the configuration.
func (s *scene) declares(users ...*store.User) {
	s.Helper()
	declared, err := store.NewStaticDirectory(store.Declarations{Users: users})
	s.must(err)
	s.SignIns.Families.Directory = store.OverlayDirectory{Declared: declared, Stored: s.stored.Directory()}
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) user(id string) *store.User {
	s.Helper()
	user, err := s.SignIns.Families.Directory.User(s.Context(), id)
	s.must(err)
	return user
}

func (s *scene) own(id string) []*store.Factor {
	s.Helper()
	own, err := s.SignIns.Factors.Of(s.Context(), s.user(id))
	s.must(err)
	return own
}

// passkey returns the only passkey of a user.
func (s *scene) passkey(id string) *store.Factor {
	s.Helper()
	var found *store.Factor
	for _, f := range s.own(id) {
		if f.Kind == store.Passkey && found == nil {
			found = f
		} else if f.Kind == store.Passkey {
			s.Fatalf("%s has several passkeys", id)
		}
	}
	if found == nil {
		s.Fatalf("%s has no passkey", id)
	}
	return found
}

var here = Visit{Browser: signin.NewBrowser()}

// asks returns the options of a question.
func (s *scene) asks(options string, err error) string {
	s.Helper()
	s.must(err)
	return options
}

// adds adds a passkey of an authenticator to a user who has proved a password, or both factors.
func (s *scene) adds(a *passkeytest.Authenticator, id string, v Visit) ([]oauth.Secret, error) {
	s.Helper()
	who := &signin.SignedIn{User: s.user(id), Proof: store.Proof{ACR: oauth.TwoFactorACR, AMR: []string{"pwd", "mfa"}}}
	return s.Add(s.Context(), who, oauth.NewSecret(a.Create(s.asks(s.CreationRequest(s.Context(), who.User, v)))), v, "Firefox · Linux")
}

// owner returns an authenticator with a passkey of a user.
func (s *scene) owner(id string) *passkeytest.Authenticator {
	s.Helper()
	a := passkeytest.New(s.T, s.Origin)
	_, err := s.adds(a, id, here)
	s.must(err)
	return a
}

// signsIn sends an answer to the question for a passkey alone.
func (s *scene) signsIn(answer string) (signin.SignedIn, Used, error) {
	return s.SignIn(s.Context(), oauth.NewSecret(answer), here, address)
}

// proves sends a passkey as the second factor of a user.
func (s *scene) proves(a *passkeytest.Authenticator, id string) (signin.SignedIn, error) {
	s.Helper()
	v := Visit{Browser: here.Browser, SignIn: "half"}
	who := signin.SignedIn{User: s.user(id), Proof: store.Proof{ACR: oauth.PasswordACR, AMR: []string{"pwd"}}}
	_, err := s.Prove(s.Context(), &who, oauth.NewSecret(a.Get(s.asks(s.FactorRequest(s.own(id), v)))), v)
	return who, err
}

// wants fails unless the error has that reason; empty: there is none.
func (s *scene) wants(err error, reason, what string) {
	s.Helper()
	got := ""
	if err != nil {
		got = oauth.AsError(err).Reason
	}
	if got != reason {
		s.Errorf("%s: %q (%v), want %q", what, got, errors.Unwrap(err), reason)
	}
}

// TestW46APasskeyAlone: a passkey with user verification and no password → its user, of class 2, by `hwk` or, if it can be synced, `swk`, and
// `mfa`; counter and time of use are stored. No password is hashed and no hashing slot is taken.
func TestW46APasskeyAlone(t *testing.T) {
	t.Parallel()
	for synced, method := range map[bool]string{false: "hwk", true: "swk"} {
		s := newScene(t) // without a Hasher
		a := passkeytest.New(t, origin)
		a.Synced = synced
		_, err := s.adds(a, "u-ada", here)
		s.must(err)
		s.at, a.Counter = s.at.Add(time.Hour), 7
		who, used, err := s.signsIn(a.Get(s.asks(s.SignInRequest(here))))
		s.must(err)
		if who.User.ID != "u-ada" || who.Provider != "" || !who.AuthTime.Equal(s.at) || who.Proof.ACR != "2" || fmt.Sprint(who.Proof.AMR) != "["+method+" mfa]" {
			t.Errorf("%+v", who)
		}
		if f := s.passkey("u-ada"); !f.LastUsedAt.Equal(s.at) || used.ID != f.ID || used.WentBack {
			t.Errorf("last used %s, %+v", f.LastUsedAt, used)
		}
	}
}

// TestW47AWrongPasskey: another origin, RP ID, ceremony, challenge, browser or sign-in, a frame, no user verification or presence, another
// user's handle or none, a changed signature, garbage → refused alike, and nothing is stored.
func TestW47AWrongPasskey(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *scene, a *passkeytest.Authenticator) string{
		"another origin": func(_ *scene, a *passkeytest.Authenticator) string { a.Origin = "https://auth.example.org"; return "" },
		"another port":   func(_ *scene, a *passkeytest.Authenticator) string { a.Origin = origin + ":8443"; return "" },
		"without TLS":    func(_ *scene, a *passkeytest.Authenticator) string { a.Origin = "http://auth.example.com"; return "" },
		"a sibling": func(_ *scene, a *passkeytest.Authenticator) string {
			a.Origin = "https://evil.auth.example.com"
			return ""
		},
		"another RP ID": func(_ *scene, a *passkeytest.Authenticator) string { a.RelyingParty = "example.com"; return "" },
		"a frame":       func(_ *scene, a *passkeytest.Authenticator) string { a.CrossOrigin = true; return "" },
		"a frame with an origin": func(_ *scene, a *passkeytest.Authenticator) string {
			a.CrossOrigin, a.TopOrigin = true, origin
			return ""
		},
		"a top origin alone":       func(_ *scene, a *passkeytest.Authenticator) string { a.TopOrigin = origin; return "" },
		"the ceremony of creation": func(_ *scene, a *passkeytest.Authenticator) string { a.Type = "webauthn.create"; return "" },
		"a challenge of its own":   func(_ *scene, a *passkeytest.Authenticator) string { a.Challenge = strings.Repeat("A", 86); return "" },
		"no user verification":     func(_ *scene, a *passkeytest.Authenticator) string { a.Unverified = true; return "" },
		"no user presence":         func(_ *scene, a *passkeytest.Authenticator) string { a.Absent = true; return "" },
		"another user's handle":    func(_ *scene, a *passkeytest.Authenticator) string { a.Handle = "u-ben"; return "" },
		"synced since":             func(_ *scene, a *passkeytest.Authenticator) string { a.Synced = true; return "" },
		"another browser": func(s *scene, a *passkeytest.Authenticator) string {
			return a.Get(s.asks(s.SignInRequest(Visit{Browser: signin.NewBrowser()})))
		},
		"another sign-in": func(s *scene, a *passkeytest.Authenticator) string {
			return a.Get(s.asks(s.SignInRequest(Visit{Browser: here.Browser, SignIn: "half"})))
		},
		"a challenge for a new passkey": func(s *scene, a *passkeytest.Authenticator) string {
			var created struct{ Challenge string }
			s.must(json.Unmarshal([]byte(s.asks(s.CreationRequest(t.Context(), s.user("u-ada"), here))), &created))
			a.Challenge = created.Challenge
			return ""
		},
		"no handle": func(s *scene, a *passkeytest.Authenticator) string {
			return without(t, a.Get(s.asks(s.SignInRequest(here))), "userHandle")
		},
		"a changed signature": func(s *scene, a *passkeytest.Authenticator) string {
			other := passkeytest.New(t, origin)
			_, err := s.adds(other, "u-ben", here)
			s.must(err)
			request := s.asks(s.SignInRequest(here))
			return with(t, a.Get(request), "signature", response(t, other.Get(request), "signature"))
		},
		"no signature": func(s *scene, a *passkeytest.Authenticator) string {
			return without(t, a.Get(s.asks(s.SignInRequest(here))), "signature")
		},
		"no JSON":  func(*scene, *passkeytest.Authenticator) string { return "passkey" },
		"an array": func(*scene, *passkeytest.Authenticator) string { return "[]" },
		"an object": func(*scene, *passkeytest.Authenticator) string {
			return `{"id":"AA","rawId":"AA","type":"public-key","response":{}}`
		},
		"empty data": func(*scene, *passkeytest.Authenticator) string {
			return `{"id":"AA","rawId":"AA","type":"public-key","response":{"clientDataJSON":"e30","authenticatorData":"AA"}}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			a := s.owner("u-ada")
			before := *s.passkey("u-ada")
			s.at = s.at.Add(time.Minute)
			answer := change(s, a)
			if answer == "" {
				answer = a.Get(s.asks(s.SignInRequest(here)))
			}
			who, _, err := s.signsIn(answer)
			s.wants(err, "passkey_wrong", name)
			if who.User != nil || oauth.AsError(err).Code != oauth.InvalidGrant {
				t.Errorf("%+v, %v", who, err)
			}
			if after := s.passkey("u-ada"); !after.LastUsedAt.Equal(before.LastUsedAt) || string(after.Data) != string(before.Data) {
				t.Error("it was recorded as used")
			}
		})
	}
}

// response returns a member of an answer's response.
func response(t *testing.T, answer, name string) string {
	t.Helper()
	var a struct{ Response map[string]any }
	if err := json.Unmarshal([]byte(answer), &a); err != nil {
		t.Fatal(err)
	}
	return a.Response[name].(string)
}

// with returns an answer whose response has another member.
func with(t *testing.T, answer, name string, value any) string {
	t.Helper()
	var a map[string]any
	if err := json.Unmarshal([]byte(answer), &a); err != nil {
		t.Fatal(err)
	}
	if a["response"].(map[string]any)[name] = value; value == nil {
		delete(a["response"].(map[string]any), name)
	}
	changed, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(changed)
}

func without(t *testing.T, answer, name string) string {
	t.Helper()
	return with(t, answer, name, nil)
}

// TestW48AnAnswerIsForOneUse: the same answer sent twice, or to two nodes at once, alone or as a second factor → accepted once.
func TestW48AnAnswerIsForOneUse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := s.owner("u-ada")
	answer := a.Get(s.asks(s.SignInRequest(here)))
	_, _, err := s.signsIn(answer)
	s.wants(err, "", "the first use")
	_, _, err = s.signsIn(answer)
	s.wants(err, "passkey_replayed", "the second use")

	other := s.RelyingParty // another node
	v := Visit{Browser: here.Browser, SignIn: "half"}
	answer = a.Get(s.asks(s.FactorRequest(s.own("u-ada"), v)))
	accepted := make(chan error, 8)
	var all sync.WaitGroup
	for i := range cap(accepted) {
		node := []*RelyingParty{&s.RelyingParty, &other}[i%2]
		user := s.user("u-ada")
		all.Go(func() {
			if _, err := node.Prove(t.Context(), &signin.SignedIn{User: user}, oauth.NewSecret(answer), v); err == nil {
				accepted <- nil
			}
		})
	}
	all.Wait()
	if len(accepted) != 1 {
		t.Errorf("%d of %d were accepted", len(accepted), cap(accepted))
	}
}

// TestW49AQuestionIsForTenMinutes: an answer to a question that is more than ten minutes old, or older than a restart → the first refused as
// expired, the second accepted, because nothing is kept for a question.
func TestW49AQuestionIsForTenMinutes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := s.owner("u-ada")
	request := s.asks(s.SignInRequest(here))
	s.at = s.at.Add(9 * time.Minute)
	restarted := s.RelyingParty
	_, _, err := restarted.SignIn(t.Context(), oauth.NewSecret(a.Get(request)), here, address)
	s.wants(err, "", "after nine minutes")
	request = s.asks(s.SignInRequest(here))
	s.at = s.at.Add(10*time.Minute + time.Second)
	_, _, err = s.signsIn(a.Get(request))
	s.wants(err, "passkey_expired", "after ten minutes")
	_, err = s.adds(passkeytest.New(t, origin), "u-ben", here)
	s.must(err)
	created := passkeytest.New(t, origin).Create(s.asks(s.CreationRequest(t.Context(), s.user("u-ada"), here)))
	s.at = s.at.Add(10*time.Minute + time.Second)
	who := &signin.SignedIn{User: s.user("u-ada"), Proof: store.Proof{ACR: oauth.TwoFactorACR}}
	_, err = s.Add(t.Context(), who, oauth.NewSecret(created), here, "")
	s.wants(err, "passkey_expired", "a new passkey after ten minutes")
}

// TestW50APasskeyOfWhoMayNotSignIn: a passkey of a disabled, locked or invited user, or of the former person of a declared id → refused as a
// wrong one; of a removed user → unknown.
func TestW50APasskeyOfWhoMayNotSignIn(t *testing.T) {
	t.Parallel()
	theEnd := store.Ending{}
	for name, change := range map[string]func(u *store.User) error{
		"disabled": func(u *store.User) error { u.Status = store.UserDisabled; return nil },
		"locked":   func(u *store.User) error { u.Status = store.UserLocked; return nil },
		"invited":  func(u *store.User) error { u.PasswordHash, u.External = oauth.Secret{}, false; return nil },
	} {
		s := newScene(t)
		a := s.owner("u-ada")
		s.must(errOf(s.stored.Users.ChangeUser(t.Context(), "u-ada", store.UserChange{Edit: change}, theEnd)))
		_, _, err := s.signsIn(a.Get(s.asks(s.SignInRequest(here))))
		s.wants(err, "passkey_wrong", name)
	}
	s := newScene(t)
	ada, dora := s.owner("u-ada"), s.owner("u-dora")
	_, _, err := s.signsIn(dora.Get(s.asks(s.SignInRequest(here))))
	s.wants(err, "", "a declared user")
	other := *s.declared
	other.Email = "another@example.com"
	s.declares(&other)
	_, _, err = s.signsIn(dora.Get(s.asks(s.SignInRequest(here))))
	s.wants(err, "passkey_wrong", "the former person of a declared id")
	s.declares()
	_, _, err = s.signsIn(dora.Get(s.asks(s.SignInRequest(here))))
	s.wants(err, "passkey_wrong", "a user who is declared no more")
	s.must(errOf(s.stored.Users.RemoveUser(t.Context(), "u-ada", theEnd)))
	_, used, err := s.signsIn(ada.Get(s.asks(s.SignInRequest(here))))
	s.wants(err, "passkey_unknown", "a removed user")
	if used.Credential != ada.Passkeys[0].Text() {
		t.Errorf("%+v", used)
	}
}

func errOf[T any](_ T, err error) error { return err }

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func decode(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestW51WhoSignsInElsewhereNeedsThat: the passkey alone of a user without a password here → refused, and it is a second factor all the same.
func TestW51WhoSignsInElsewhereNeedsThat(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := s.owner("u-ada")
	s.must(errOf(s.stored.Users.ChangeUser(t.Context(), "u-ada", store.UserChange{Edit: func(u *store.User) error { u.PasswordHash = oauth.Secret{}; return nil }}, store.Ending{})))
	_, _, err := s.signsIn(a.Get(s.asks(s.SignInRequest(here))))
	s.wants(err, ErrNotAlone.Reason, "alone")
	who, err := s.proves(a, "u-ada")
	s.wants(err, "", "as a second factor")
	if who.Proof.ACR != oauth.TwoFactorACR {
		t.Errorf("%+v", who.Proof)
	}
}

// TestW52FailuresAreCountedByAddress: five wrong passkeys from an address → the right one is refused there for a minute, and not elsewhere;
// right ones are not counted.
func TestW52FailuresAreCountedByAddress(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := s.owner("u-ada")
	for range 7 {
		_, _, err := s.signsIn(a.Get(s.asks(s.SignInRequest(here))))
		s.wants(err, "", "a right one")
	}
	for range 5 {
		_, _, err := s.signsIn("garbage")
		s.wants(err, "passkey_wrong", "a wrong one")
	}
	_, _, err := s.signsIn(a.Get(s.asks(s.SignInRequest(here))))
	s.wants(err, "sign_in_throttled", "the right one")
	if e := oauth.AsError(err); e.Code != oauth.RateLimited || e.RetryAfter <= 0 {
		t.Errorf("%+v", e)
	}
	_, _, err = s.SignIn(t.Context(), oauth.NewSecret(a.Get(s.asks(s.SignInRequest(here)))), here, "192.0.2.2")
	s.wants(err, "", "elsewhere")
	s.at = s.at.Add(time.Minute)
	_, _, err = s.signsIn(a.Get(s.asks(s.SignInRequest(here))))
	s.wants(err, "", "after a minute")
}

// TestW53ACounterThatGoesBackIsNoted: a counter that does not grow → accepted, and reported; no counter at all, as of synced passkeys → not
// reported.
func TestW53ACounterThatGoesBackIsNoted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := s.owner("u-ada")
	for _, c := range []struct {
		counter uint32
		back    bool
	}{{0, false}, {0, false}, {5, false}, {6, false}, {6, true}, {3, true}, {4, false}, {0, true}, {0, false}} {
		a.Counter = c.counter
		_, used, err := s.signsIn(a.Get(s.asks(s.SignInRequest(here))))
		s.wants(err, "", fmt.Sprint("counter ", c.counter))
		if used.WentBack != c.back {
			t.Errorf("counter %d: went back %t", c.counter, used.WentBack)
		}
	}
}

// TestW54AKeyIsSealedToItsOwner: the row of one user's passkey copied to another user, and a row with a key that was not sealed → prove
// nothing.
func TestW54AKeyIsSealedToItsOwner(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := s.owner("u-ben")
	row := *s.passkey("u-ben")
	s.must(s.stored.Factors.RemoveFactors(t.Context(), store.FactorFilter{UserID: "u-ben"}))
	for name, data := range map[string][]byte{"copied": row.Data, "in the clear": []byte(`{"rp":"auth.example.com","key":"pQECAyYgASFYIA"}`)} {
		row.ID, row.UserID, row.Data = oauth.NewID(), "u-ada", data
		s.must(s.stored.Factors.AddFactor(t.Context(), &row, s.user("u-ada").Version))
		if who, _, err := s.signsIn(a.Get(s.asks(s.SignInRequest(here)))); err == nil {
			t.Errorf("%s: signed in as %s", name, who.User.ID)
		}
		if s.IsUsable(&row) {
			t.Errorf("%s: it is offered", name)
		}
		s.must(s.stored.Factors.RemoveFactors(t.Context(), store.FactorFilter{UserID: "u-ada"}))
	}
}

// TestW55APasskeyBesideAPassword: a passkey without user verification after a password → class 2, by `pwd`, `hwk` and `mfa`, with the time of
// the password; another user's passkey, a question of another sign-in, or without user presence → refused.
func TestW55APasskeyBesideAPassword(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	ada, ben := s.owner("u-ada"), s.owner("u-ben")
	ada.Unverified = true
	request := s.asks(s.FactorRequest(s.own("u-ada"), here))
	if !strings.Contains(request, `"userVerification":"discouraged"`) || !strings.Contains(request, ada.Passkeys[0].Text()) || strings.Contains(request, ben.Passkeys[0].Text()) ||
		!strings.Contains(request, `"transports":["internal"]`) {
		t.Errorf("request %s", request)
	}
	who, err := s.proves(ada, "u-ada")
	s.wants(err, "", "the user's")
	if who.Proof.ACR != "2" || fmt.Sprint(who.Proof.AMR) != "[pwd hwk mfa]" {
		t.Errorf("%+v", who.Proof)
	}
	prove := func(a *passkeytest.Authenticator, asked, answered Visit) error {
		answer := a.GetWith(a.Passkeys[0], s.asks(s.FactorRequest(s.own("u-ada"), asked)))
		who := signin.SignedIn{User: s.user("u-ada")}
		_, err := s.Prove(t.Context(), &who, oauth.NewSecret(answer), answered)
		if err != nil && who.Proof.ACR != "" {
			t.Errorf("%+v", who.Proof)
		}
		return err
	}
	v := Visit{Browser: here.Browser, SignIn: "one"}
	s.wants(prove(ben, v, v), "passkey_wrong", "another user's")
	s.wants(prove(ada, v, Visit{Browser: here.Browser, SignIn: "two"}), "passkey_wrong", "another sign-in")
	s.wants(prove(ada, v, Visit{Browser: signin.NewBrowser(), SignIn: "one"}), "passkey_wrong", "another browser")
	ada.Absent = true
	s.wants(prove(ada, v, v), "passkey_wrong", "no user presence")
}

// TestW56TheFirstFactorGivesRecoveryCodes: the first passkey → ten recovery codes and class 2; the second, and an authenticator besides → no
// further codes, and the first ones are good.
func TestW56TheFirstFactorGivesRecoveryCodes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	who := &signin.SignedIn{User: s.user("u-ada"), Proof: store.Proof{ACR: oauth.PasswordACR, AMR: []string{"pwd"}}}
	a := passkeytest.New(t, origin)
	codes, err := s.Add(t.Context(), who, oauth.NewSecret(a.Create(s.asks(s.CreationRequest(t.Context(), who.User, here)))), here, "Phone")
	s.must(err)
	if len(codes) != 10 || who.Proof.ACR != "2" || fmt.Sprint(who.Proof.AMR) != "[pwd hwk mfa]" {
		t.Errorf("%d codes, %+v", len(codes), who.Proof)
	}
	if f := s.passkey("u-ada"); f.Name != "Phone" || f.Credential != a.Passkeys[0].Text() || !f.LastUsedAt.Equal(s.at) {
		t.Errorf("%+v", f)
	}
	if further, err := s.adds(passkeytest.New(t, origin), "u-ada", here); err != nil || further != nil {
		t.Errorf("the second: %d codes, %v", len(further), err)
	}
	kind, err := s.SignIns.Factors.Prove(t.Context(), &signin.SignedIn{User: who.User}, codes[0])
	if err != nil || kind != store.RecoveryCodes {
		t.Errorf("%s, %v", kind, err)
	}
}

// TestW57APasswordAddsNoSecondPasskey: a sign-in that proved the password alone, begun before the user added a factor → adds neither a passkey
// nor an authenticator.
func TestW57APasswordAddsNoSecondPasskey(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	thief := &signin.SignedIn{User: s.user("u-ada"), Proof: store.Proof{ACR: oauth.PasswordACR, AMR: []string{"pwd"}}}
	v := Visit{Browser: signin.NewBrowser(), SignIn: "of the thief"}
	created := passkeytest.New(t, origin).Create(s.asks(s.CreationRequest(t.Context(), thief.User, v)))
	s.owner("u-ada")
	_, err := s.Add(t.Context(), thief, oauth.NewSecret(created), v, "")
	s.wants(err, signin.ErrEnrolled.Reason, "a passkey")
	f := &store.Factor{ID: oauth.NewID(), UserID: "u-ada", Kind: store.TOTP, Data: []byte("x"), CreatedAt: s.at}
	_, err = s.SignIns.Factors.Enrol(t.Context(), thief, f, "otp")
	s.wants(err, signin.ErrEnrolled.Reason, "an authenticator")
	if thief.Proof.ACR != oauth.PasswordACR || len(s.own("u-ada")) != 2 {
		t.Errorf("%+v, %d factors", thief.Proof, len(s.own("u-ada")))
	}
}

// TestW58AWrongNewPasskey: another origin, RP ID, ceremony or challenge, a frame, no user presence, a key of an algorithm that was not asked
// for, a credential id that is not the one that was made → refused, and nothing is added.
func TestW58AWrongNewPasskey(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for name, change := range map[string]func(a *passkeytest.Authenticator){
		"another origin": func(a *passkeytest.Authenticator) { a.Origin = "https://auth.example.org" },
		"another RP ID":  func(a *passkeytest.Authenticator) { a.RelyingParty = "example.com" },
		"a frame":        func(a *passkeytest.Authenticator) { a.CrossOrigin = true },
		"a sign-in":      func(a *passkeytest.Authenticator) { a.Type = "webauthn.get" },
		"a challenge":    func(a *passkeytest.Authenticator) { a.Challenge = "AAAA" },
		"nobody there":   func(a *passkeytest.Authenticator) { a.Absent = true },
	} {
		a := passkeytest.New(t, origin)
		change(a)
		_, err := s.adds(a, "u-ada", here)
		s.wants(err, "passkey_wrong", name)
	}
	who := &signin.SignedIn{User: s.user("u-ada"), Proof: store.Proof{ACR: oauth.TwoFactorACR}}
	for name, change := range map[string]func(answer string) string{
		"another id": func(answer string) string { return strings.Replace(answer, `"id":"`, `"id":"AAAA`, 1) },
		"both ids": func(answer string) string {
			return strings.NewReplacer(`"id":"`, `"id":"AAAA`, `"rawId":"`, `"rawId":"AAAA`).Replace(answer)
		},
		"another algorithm": func(answer string) string { // ES384 on the curve of ES256
			object := response(t, answer, "attestationObject")
			changed := strings.Replace(string(decode(t, object)), "\xa5\x01\x02\x03\x26", "\xa5\x01\x02\x03\x38", 1)
			return with(t, answer, "attestationObject", encode([]byte(changed)))
		},
		"no object": func(answer string) string { return without(t, answer, "attestationObject") },
		"no JSON":   func(string) string { return "{" },
		"a sign-in": func(string) string {
			return s.owner("u-ben").Get(s.asks(s.SignInRequest(here)))
		},
	} {
		created := passkeytest.New(t, origin).Create(s.asks(s.CreationRequest(t.Context(), who.User, here)))
		_, err := s.Add(t.Context(), who, oauth.NewSecret(change(created)), here, "")
		s.wants(err, "passkey_wrong", name)
	}
	if own := s.own("u-ada"); len(own) > 0 {
		t.Errorf("%+v", own)
	}
}

// TestW59AnAttestationIsIgnored: a statement that was not asked for, whose certificate names a server → the passkey is added as one without,
// and the statement is not looked at.
func TestW59AnAttestationIsIgnored(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for name, statement := range map[string]string{
		"packed":     "\x66packed\x67attStmt\xa3\x63alg\x26\x63sig\x41\x00\x63x5c\x81\x41\x00",
		"tpm":        "\x63tpm\x67attStmt\xa1\x63ver\x632.0",
		"an unknown": "\x67unknown\x67attStmt\xa0",
	} {
		a := passkeytest.New(t, origin)
		a.Attestation = []byte(statement)
		_, err := s.adds(a, "u-ada", here)
		s.wants(err, "", name)
		_, _, err = s.signsIn(a.Get(s.asks(s.SignInRequest(here))))
		s.wants(err, "", name)
	}
}

// TestW60HowManyPasskeys: a passkey that another user has, one that the authenticator has already, and one beyond twenty → refused.
func TestW60HowManyPasskeys(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := passkeytest.New(t, origin)
	created := a.Create(s.asks(s.CreationRequest(t.Context(), s.user("u-ada"), here)))
	who := &signin.SignedIn{User: s.user("u-ada"), Proof: store.Proof{ACR: oauth.TwoFactorACR}}
	_, err := s.Add(t.Context(), who, oauth.NewSecret(created), here, "")
	s.must(err)
	_, err = s.Add(t.Context(), who, oauth.NewSecret(created), here, "")
	s.wants(err, "passkey_replayed", "the same answer")
	request := s.asks(s.CreationRequest(t.Context(), who.User, here))
	if !a.Excludes(request) || passkeytest.New(t, origin).Excludes(request) {
		t.Errorf("excluded: %s", request)
	}
	taken := &store.Factor{ID: "f", UserID: "u-ben", Kind: store.Passkey, Data: []byte("x"), Credential: a.Passkeys[0].Text(), CreatedAt: s.at}
	_, err = s.SignIns.Factors.Enrol(t.Context(), &signin.SignedIn{User: s.user("u-ben")}, taken, "hwk")
	s.wants(err, signin.ErrEnrolled.Reason, "another user's")
	for range MaxPasskeys - 1 {
		_, err := s.adds(passkeytest.New(t, origin), "u-ada", here)
		s.must(err)
	}
	_, err = s.adds(passkeytest.New(t, origin), "u-ada", here)
	s.wants(err, ErrTooMany.Reason, "one too many")
	if s.CanAdd(s.own("u-ada")) || !s.CanAdd(s.own("u-ben")) {
		t.Error("CanAdd is wrong")
	}
}

// TestW61AnotherRPID: the site has another RP ID → earlier passkeys are neither offered nor accepted nor told to the browser, they are marked,
// and their user is still asked for a second factor.
func TestW61AnotherRPID(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := s.owner("u-ada")
	if !s.IsUsable(s.passkey("u-ada")) {
		t.Error("it is not usable before")
	}
	s.ID = "example.com"
	if request := s.asks(s.FactorRequest(s.own("u-ada"), here)); request != "" || s.IsUsable(s.passkey("u-ada")) {
		t.Errorf("offered: %s", request)
	}
	_, _, err := s.signsIn(a.Get(s.asks(s.SignInRequest(here))))
	s.wants(err, "passkey_wrong", "the passkey, signing for the new RP ID")
	if told := s.asks(s.Accepted(s.user("u-ada"), s.own("u-ada"))); !strings.Contains(told, `"allAcceptedCredentialIds":[]`) || !strings.Contains(told, `"rpId":"example.com"`) {
		t.Errorf("told %s", told)
	}
	who := signin.SignedIn{User: s.user("u-ada"), Proof: store.Proof{ACR: oauth.PasswordACR}}
	if demand, err := s.SignIns.Factors.DemandOf(t.Context(), who, false); err != nil || demand != signin.AskFactor {
		t.Errorf("%v, %v", demand, err)
	}
	fresh := s.owner("u-ada")
	_, _, err = s.signsIn(fresh.Get(s.asks(s.SignInRequest(here))))
	s.wants(err, "", "a new one")
	if told := s.asks(s.Accepted(s.user("u-ada"), s.own("u-ada"))); !strings.Contains(told, `["`+fresh.Passkeys[0].Text()+`"]`) {
		t.Errorf("told %s", told)
	}
}

// TestW62AUserHandleSaysNothing: the user handle in every question for a user → the same, of at most 64 bytes, without id or address; of
// another user, of another person with a declared id, or under another master key → another one.
func TestW62AUserHandleSaysNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	handle := func(user *store.User) string {
		var options struct{ User struct{ ID string } }
		s.must(json.Unmarshal([]byte(s.asks(s.CreationRequest(t.Context(), user, here))), &options))
		return string(decode(t, options.User.ID))
	}
	ada := handle(s.user("u-ada"))
	if ada != handle(s.user("u-ada")) || len(ada) < 16 || len(ada) > 64 || strings.Contains(ada, "ada") {
		t.Errorf("handle %q", ada)
	}
	dora, other := handle(s.user("u-dora")), *s.declared
	other.Email = "another@example.com"
	s.declares(&other)
	if ada == handle(s.user("u-ben")) || dora == handle(s.user("u-dora")) {
		t.Error("two people have one handle")
	}
	s.SignIns.Families.Master = testkeys.Master(t, 'q', s.at)
	if ada == handle(s.user("u-ada")) {
		t.Error("the handle does not depend on the master key")
	}
}

// TestW63APasskeyIsNamedAfterItsAuthenticator: a known authenticator → its name; an unknown one → the given name.
func TestW63APasskeyIsNamedAfterItsAuthenticator(t *testing.T) {
	t.Parallel()
	for name, aaguid := range map[string]string{
		"1Password": "\xba\xda\x55\x66\xa7\xaa\x40\x1f\xbd\x96\x45\x61\x9a\x55\x12\x0d", "Firefox · Linux": "\x01",
	} {
		s := newScene(t)
		a := passkeytest.New(t, origin)
		copy(a.AAGUID[:], aaguid)
		_, err := s.adds(a, "u-ada", here)
		s.must(err)
		if got := s.passkey("u-ada").Name; got != name {
			t.Errorf("%q, want %q", got, name)
		}
	}
}

// TestW64WithoutNewPasskeys: passkeys are off → nobody adds one or signs in with one alone, and those that there are are still second factors.
func TestW64WithoutNewPasskeys(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := s.owner("u-ada")
	s.Alone, s.SignIns.Factors.Passkeys = false, false
	_, _, err := s.signsIn(a.Get(s.asks(s.SignInRequest(here))))
	s.wants(err, "passkey_off", "alone")
	_, err = s.adds(passkeytest.New(t, origin), "u-ben", here)
	s.wants(err, "passkey_off", "a new one")
	_, err = s.proves(a, "u-ada")
	s.wants(err, "", "as a second factor")
	if s.CanAdd(nil) || (*RelyingParty)(nil).CanAdd(nil) {
		t.Error("CanAdd is wrong")
	}
}

// TestW65APasskeyIsCheap: a sign-in with a passkey, with everything that it reads and stores → at most a tenth of the time of hashing one
// password.
func TestW65APasskeyIsCheap(t *testing.T) {
	s := newScene(t)
	a := s.owner("u-ada")
	// The fastest of a few of each, by turns: other tests run beside it.
	passkey, hash := time.Hour, time.Hour
	for range 10 {
		answer := a.Get(s.asks(s.SignInRequest(here)))
		began := time.Now()
		_, _, err := s.signsIn(answer)
		passkey = min(passkey, time.Since(began))
		s.must(err)
		began = time.Now()
		passwords.Hash(oauth.NewSecret("correct horse battery staple"))
		hash = min(hash, time.Since(began))
	}
	t.Logf("a passkey %s, a password %s: 1 to %.0f", passkey, hash, float64(hash)/float64(passkey))
	if passkey > hash/10 {
		t.Errorf("a passkey takes %s, a password %s", passkey, hash)
	}
}

// TestW75ALongPublicKey: a new passkey with an RSA key of 4096 bits → added; with one that takes long to verify with → refused, and nothing is
// stored.
func TestW75ALongPublicKey(t *testing.T) {
	s := newScene(t)
	for modulus, reason := range map[int]string{512: "", 1100: "passkey_wrong", 40_000: "passkey_wrong"} {
		a := passkeytest.New(t, origin)
		a.Modulus = modulus
		before := len(s.own("u-ada"))
		_, err := s.adds(a, "u-ada", here)
		s.wants(err, reason, fmt.Sprintf("%d bytes", modulus))
		if added := len(s.own("u-ada")) > before; added != (reason == "") {
			t.Errorf("%d bytes: added %t", modulus, added)
		}
	}
}
