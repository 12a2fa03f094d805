package grants_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// peopleElsewhere is a directory of people by login. Each has the password userPassword.
type peopleElsewhere struct {
	name     string
	people   map[string]*store.User // by login; nil: the rules refuse the person
	password string                 // of all; empty: userPassword
	usesName bool
	fault    error
	hold     chan struct{} // closed to continue
	// meanwhile is called after the account was found.
	meanwhile func()

	mu    sync.Mutex
	asked []string
}

func (p *peopleElsewhere) Provider() string     { return p.name }
func (p *peopleElsewhere) TakesUsernames() bool { return p.usesName }

func (p *peopleElsewhere) SignIn(ctx context.Context, a signin.DirectoryAttempt) (signin.SignedIn, error) {
	p.mu.Lock()
	p.asked = append(p.asked, a.Login)
	p.mu.Unlock()
	if p.hold != nil {
		select {
		case <-p.hold:
		case <-ctx.Done():
			return signin.SignedIn{}, oauth.Unavailable("slow", ctx.Err())
		}
	}
	if p.fault != nil {
		return signin.SignedIn{}, p.fault
	}
	login := strings.TrimRight(a.Login, "!") // the directory treats this spelling as equal
	user, known := p.people[login]
	if !known {
		return signin.SignedIn{}, store.ErrNotFound
	}
	if err := a.Admit("subject of " + login); err != nil {
		return signin.SignedIn{}, err
	}
	if a.Password.Reveal() != cmp.Or(p.password, userPassword) {
		return signin.SignedIn{}, oauth.NewError(oauth.InvalidGrant, "wrong_there")
	}
	if user == nil {
		return signin.SignedIn{}, oauth.NewError(oauth.AccessDenied, "nobody_here")
	}
	if p.meanwhile != nil {
		p.meanwhile()
	}
	return signin.SignedIn{User: user, Provider: p.Provider(), Subject: "subject of " + strings.TrimPrefix(user.ID, "u-")}, nil
}

// outsider adds a user without a password here.
func (f *flow) outsider(id string) *store.User {
	f.tb.Helper()
	now := f.clock()
	f.must(f.store.Users.AddUser(f.tb.Context(),
		&store.User{ID: "u-" + id, Email: id + "@elsewhere.example", Name: id, Status: store.UserActive, External: true, CreatedAt: now, Organisation: "acme"}, false,
		store.Identity{Provider: "corp", Subject: "subject of " + id, UserID: "u-" + id, LinkedAt: now, LastUsedAt: now}))
	return f.user(id)
}

func (f *flow) tryFrom(address, login, password string) (signin.SignedIn, error) {
	return f.SignIn(f.tb.Context(), signin.Attempt{Email: login, Password: oauth.NewSecret(password), Address: address})
}

// TestP47OwnPasswordsStayHere: an account with a password of ours → no directory is asked about it, and it waits for none.
func TestP47OwnPasswordsStayHere(t *testing.T) {
	f := newFlow(t)
	zoe := f.outsider("zoe")
	corp := &peopleElsewhere{name: "corp", people: map[string]*store.User{"zoe@elsewhere.example": zoe, "ada@acme.example": zoe}}
	f.SignIns.Directories = []signin.PasswordDirectory{corp}

	if who, err := f.tryFrom("192.0.2.1", "ada@acme.example", userPassword); err != nil || who.User.ID != "u-ada" || who.Provider != "" {
		t.Fatalf("%+v, %v", who, err)
	}
	_, err := f.tryFrom("192.0.2.1", "ada@acme.example", "wrong password")
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	if len(corp.asked) > 0 {
		t.Fatalf("asked about %q", corp.asked)
	}
	who, err := f.tryFrom("192.0.2.1", " Zoe@Elsewhere.example", userPassword)
	if err != nil || who.User.ID != "u-zoe" || who.Provider != "corp" || !slices.Equal(corp.asked, []string{"zoe@elsewhere.example"}) {
		t.Fatalf("%+v, %v, asked about %q", who, err, corp.asked)
	}
	s, _, err := f.OpenSession(t.Context(), who, "a browser", "")
	f.must(err)
	if s.Family.SignIn.Provider != "corp" {
		t.Errorf("the session is of %q", s.Family.SignIn.Provider)
	}

	corp.hold = make(chan struct{})
	var waiting sync.WaitGroup
	corp.mu.Lock()
	corp.asked = nil
	corp.mu.Unlock()
	// Each request hashes in turn and then waits in the directory without a slot. The account's limit permits that many.
	patience := time.Now().Add(time.Minute)
	for n := range 9 {
		waiting.Go(func() { _, _ = f.tryFrom("198.51.100.1", "zoe@elsewhere.example", userPassword) })
		for asked := 0; asked <= n; time.Sleep(time.Millisecond) {
			corp.mu.Lock()
			asked = len(corp.asked)
			corp.mu.Unlock()
			if time.Now().After(patience) {
				t.Fatal("they do not come as far as the directory")
			}
		}
	}
	if _, err := f.tryFrom("192.0.2.1", "ada@acme.example", userPassword); err != nil {
		t.Errorf("somebody with a password of ours waits for a directory: %v", err)
	}
	close(corp.hold)
	waiting.Wait()
}

// TestP110TheIdentityIsTakenAwayMeanwhile: the identity is removed after the account was found and before the sign-in completes.
func TestP110TheIdentityIsTakenAwayMeanwhile(t *testing.T) {
	f := newFlow(t)
	zoe := f.outsider("zoe")
	corp := &peopleElsewhere{name: "corp", people: map[string]*store.User{"zoe@elsewhere.example": zoe}}
	f.SignIns.Directories = []signin.PasswordDirectory{corp}
	// The user has another identity, and stays active.
	f.must(f.store.Identities.LinkIdentity(t.Context(), store.Identity{Provider: "other", Subject: "zoe", UserID: zoe.ID}))
	grant := Request{GrantType: oauth.PasswordGrant, Login: PasswordParameters{Email: "zoe@elsewhere.example", Password: oauth.NewSecret(userPassword)}, Client: clients.Authentication{Address: "192.0.2.1"}}
	who, err := f.tryFrom("192.0.2.1", "zoe@elsewhere.example", userPassword)
	f.must(err)
	signsIn := map[string]func() error{
		"on the page": func() error {
			_, _, err := f.OpenSession(t.Context(), who, "a browser", "")
			return err
		},
		"at a host": func() error {
			_, err := f.OpenHostSession(t.Context(), who, oauth.Host{Scheme: "https", Authority: "app.example"}, "attempt")
			return err
		},
		"by the password grant": func() error {
			_, err := f.exchange(grant)
			return err
		},
	}
	for name, signIn := range signsIn {
		if err := signIn(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	corp.meanwhile = func() {
		_, err := f.store.Identities.UnlinkIdentity(t.Context(), store.Unlinking{Provider: "corp", Subject: "subject of zoe", UserID: zoe.ID, MayBeLast: true}, f.Ending())
		f.must(err)
	}
	tokentest.WantCode(t, signsIn["by the password grant"](), oauth.InvalidGrant)
	for name, signIn := range signsIn {
		if name != "by the password grant" {
			tokentest.WantCode(t, signIn(), oauth.InvalidGrant)
		}
	}
	families, err := f.store.Families.FamiliesOf(t.Context(), zoe.ID, f.clock())
	f.must(err)
	if len(families) > 0 {
		t.Errorf("%d families live", len(families))
	}
}

// TestP48FailuresElsewhere: failures in a directory → counted by name, address and person, whatever names lead there; not while it is
// away.
func TestP48FailuresElsewhere(t *testing.T) {
	f := newFlow(t)
	corp := &peopleElsewhere{name: "corp", usesName: true, people: map[string]*store.User{"zoe": f.outsider("zoe"), "eve": nil}}
	f.SignIns.Directories = []signin.PasswordDirectory{corp}
	attempts := func(login, password string, n int) (err error) {
		for i := range n {
			_, err = f.tryFrom("192.0.2."+string(rune('1'+i/20)), login, password)
		}
		return err
	}
	for _, login := range []string{"zoe", "nobody"} {
		err := attempts(login, "wrong", 10)
		tokentest.WantCode(t, err, oauth.InvalidGrant)
		_, err = f.tryFrom("203.0.113.1", strings.ToUpper(login)+" ", userPassword)
		tokentest.WantCode(t, err, oauth.RateLimited)
	}
	asked := len(corp.asked)
	_, err := f.tryFrom("203.0.113.1", "zoe!", userPassword)
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	if len(corp.asked) != asked+1 {
		t.Error("the other spelling was not asked about: the test shows nothing")
	}
	f.wait(time.Hour)
	who, err := f.tryFrom("203.0.113.1", "zoe!", userPassword)
	f.must(err)
	if who.User.ID != "u-zoe" {
		t.Errorf("signed in as %q", who.User.ID)
	}
	for range 20 { // successes are not counted
		_, err := f.tryFrom("203.0.113.1", "zoe", userPassword)
		f.must(err)
	}
	t.Run("a person whom the rules let be nobody", func(t *testing.T) {
		tokentest.WantCode(t, attempts("eve", userPassword, 10), oauth.AccessDenied)
		tokentest.WantCode(t, attempts("eve", userPassword, 1), oauth.RateLimited)
	})
	t.Run("a fault of the directory is nobody's failure", func(t *testing.T) {
		f.wait(time.Hour)
		corp.fault = oauth.Unavailable("away", errors.New("away"))
		tokentest.WantCode(t, attempts("zoe", "wrong", 25), oauth.TemporarilyUnavailable)
		corp.fault = nil
		_, err := f.tryFrom("203.0.113.1", "zoe", userPassword)
		f.must(err)
	})
	t.Run("no username", func(t *testing.T) {
		corp.asked = nil
		for _, login := range []string{"", " ", "zoe\x00", "z\u200boe", strings.Repeat("z", 255), "\xff"} {
			_, err := f.tryFrom("203.0.113.2", login, userPassword)
			tokentest.WantCode(t, err, oauth.InvalidGrant)
		}
		corp.usesName = false
		_, err := f.tryFrom("203.0.113.2", "zoe", userPassword)
		tokentest.WantCode(t, err, oauth.InvalidGrant)
		if len(corp.asked) > 0 {
			t.Errorf("asked about %q", corp.asked)
		}
	})
}

// TestP138AThrottledPersonLooksLikeNobody: a throttled person by another name → answered and timed as a name that does not exist.
func TestP138AThrottledPersonLooksLikeNobody(t *testing.T) {
	f := newFlow(t)
	corp := &peopleElsewhere{name: "corp", usesName: true, people: map[string]*store.User{"zoe": f.outsider("zoe")}}
	f.SignIns.Directories = []signin.PasswordDirectory{corp}
	for i, known := range []string{"zoe", "nobody"} {
		for range 10 {
			_, err := f.tryFrom("192.0.2."+string(rune('1'+i)), known, "a guess")
			tokentest.WantCode(t, err, oauth.InvalidGrant)
		}
		for n := range 10 {
			_, err := f.tryFrom("203.0.113."+string(rune('1'+i)), known+"!", userPassword)
			if e := oauth.AsError(err); e.Code != oauth.InvalidGrant || e.RetryAfter != 0 || e.Description != oauth.NewError(oauth.InvalidGrant, "").Description {
				t.Fatalf("%s, attempt %d: %v", known, n, err)
			}
		}
		_, err := f.tryFrom("203.0.113."+string(rune('1'+i)), known+"!", userPassword)
		tokentest.WantCode(t, err, oauth.RateLimited)
	}
}

// TestP137ABrowserThatADirectorysPersonHasUsed: a browser known to a directory's person while others fail → a count of its own; after the
// user was removed → none.
func TestP137ABrowserThatADirectorysPersonHasUsed(t *testing.T) {
	f := newFlow(t)
	corp := &peopleElsewhere{name: "corp", usesName: true, people: map[string]*store.User{"zoe": f.outsider("zoe"), "yan": f.outsider("yan")}}
	f.SignIns.Directories = []signin.PasswordDirectory{corp}
	deviceOf := func(login string) oauth.Secret {
		t.Helper()
		who, err := f.tryFrom("198.51.100.1", login, userPassword)
		f.must(err)
		device, err := f.Device(who)
		f.must(err)
		return device
	}
	with := func(device oauth.Secret, login, password string) error {
		_, err := f.SignIn(t.Context(), signin.Attempt{Email: login, Password: oauth.NewSecret(password), Address: "198.51.100.1", Device: device})
		return err
	}
	zoes, yans := deviceOf("zoe"), deviceOf("yan")
	for range 10 {
		_, err := f.tryFrom("192.0.2.1", "zoe", "a guess")
		tokentest.WantCode(t, err, oauth.InvalidGrant)
	}
	tokentest.WantCode(t, with(oauth.Secret{}, "zoe", userPassword), oauth.RateLimited)
	tokentest.WantCode(t, with(yans, "zoe", userPassword), oauth.RateLimited)
	tokentest.WantCode(t, with(oauth.NewSecret("made up"), "zoe", userPassword), oauth.RateLimited)
	f.must(with(zoes, " ZOE", userPassword))
	for range 10 {
		tokentest.WantCode(t, with(zoes, "zoe", "a guess"), oauth.InvalidGrant)
	}
	tokentest.WantCode(t, with(zoes, "zoe", userPassword), oauth.RateLimited)
	f.wait(time.Hour)
	for range 10 { // a device belongs to the person under whose login it was used
		_ = with(zoes, "yan", "a guess")
	}
	tokentest.WantCode(t, with(oauth.Secret{}, "yan", userPassword), oauth.RateLimited)
	f.must(with(yans, "yan", userPassword))
	f.wait(time.Hour)
	for range 10 {
		_ = with(oauth.Secret{}, "zoe", "a guess")
	}
	f.must(f.registry.People.RemoveUser(t.Context(), "u-zoe"))
	tokentest.WantCode(t, with(zoes, "zoe", userPassword), oauth.RateLimited)
}

// TestP139DirectoriesAlone: `ldap` without `password` → a stored user's password does not count.
func TestP139DirectoriesAlone(t *testing.T) {
	f := newFlow(t)
	ada := f.user("ada")
	corp := &peopleElsewhere{name: "corp", people: map[string]*store.User{}}
	f.SignIns.Directories, f.SignIns.DirectoriesAlone = []signin.PasswordDirectory{corp}, true
	_, err := f.tryFrom("192.0.2.1", ada.Email, userPassword)
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	corp.people[ada.Email] = ada
	if who, err := f.tryFrom("192.0.2.1", ada.Email, userPassword); err != nil || who.User.ID != ada.ID || who.Provider != "corp" {
		t.Errorf("%+v, %v", who, err)
	}
	if n := len(corp.asked); n != 2 {
		t.Errorf("the directory was asked %d times", n)
	}
}

// TestP135WhoDisconnectsIsCounted: a browser that disconnects while a directory or provider checks → a failure; our own timeout → none.
func TestP135WhoDisconnectsIsCounted(t *testing.T) {
	f := newFlow(t)
	corp := &peopleElsewhere{name: "corp", usesName: true, people: map[string]*store.User{"zoe": f.outsider("zoe")}, hold: make(chan struct{})}
	f.SignIns.Directories = []signin.PasswordDirectory{corp}
	for n := range 10 {
		ctx, leave := context.WithCancel(t.Context())
		if n%2 == 0 {
			leave()
		}
		time.AfterFunc(time.Millisecond, leave)
		_, err := f.SignIn(ctx, signin.Attempt{Email: "zoe", Password: oauth.NewSecret("a guess"), Address: "192.0.2.1"})
		tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	}
	close(corp.hold)
	_, err := f.tryFrom("203.0.113.1", "zoe", userPassword)
	tokentest.WantCode(t, err, oauth.RateLimited)
	f.wait(time.Hour)
	slow, done := context.WithTimeout(t.Context(), time.Nanosecond) // a timeout of ours
	defer done()
	corp.hold = make(chan struct{})
	for range 15 {
		_, err := f.SignIn(slow, signin.Attempt{Email: "zoe", Password: oauth.NewSecret("a guess"), Address: "192.0.2.1"})
		tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	}
}

// TestP135AtAProvider: the same holds if a provider verifies the password.
func TestP135AtAProvider(t *testing.T) {
	f := newFlow(t)
	away := oauth.Unavailable("provider_unavailable", context.Canceled)
	gone, leave := context.WithCancel(t.Context())
	leave()
	count := func(ctx context.Context, err error, n int) (failed error) {
		for range n {
			settle, err2 := f.CountSignIn(ctx, "192.0.2.1")
			if err2 != nil {
				return err2
			}
			settle(err)
		}
		return nil
	}
	f.must(count(t.Context(), away, 40))
	f.must(count(t.Context(), oauth.NewError(oauth.ServerError, "provider_misconfigured"), 40))
	f.must(count(gone, nil, 40))
	f.must(count(gone, away, 30))
	tokentest.WantCode(t, count(t.Context(), nil, 1), oauth.RateLimited)
	f.wait(time.Hour)
	f.must(count(t.Context(), oauth.NewError(oauth.AccessDenied, "provider_denied"), 30))
	tokentest.WantCode(t, count(t.Context(), nil, 1), oauth.RateLimited)
}

// TestP49SeveralDirectories: several directories → the first that knows the name decides; one away → temporarily_unavailable for unknown
// names only.
func TestP49SeveralDirectories(t *testing.T) {
	zoe, yan := &store.User{ID: "zoe"}, &store.User{ID: "yan"}
	away := oauth.Unavailable("away", errors.New("away"))
	for _, test := range []struct {
		name          string
		first, second *peopleElsewhere
		password      string
		want          string // the user or the error
		code          oauth.ErrorCode
	}{
		{"in the first", &peopleElsewhere{people: map[string]*store.User{"z": zoe}}, &peopleElsewhere{people: map[string]*store.User{"z": yan}}, userPassword, "zoe", ""},
		{"in the second", &peopleElsewhere{}, &peopleElsewhere{people: map[string]*store.User{"z": yan}}, userPassword, "yan", ""},
		{"in none", &peopleElsewhere{}, &peopleElsewhere{}, userPassword, "", oauth.InvalidGrant},
		{"in both, with another password", &peopleElsewhere{people: map[string]*store.User{"z": zoe}}, &peopleElsewhere{people: map[string]*store.User{"z": yan}, password: "of yan"}, "of yan", "", oauth.InvalidGrant},
		{"in the second, and the first is away", &peopleElsewhere{fault: away}, &peopleElsewhere{people: map[string]*store.User{"z": yan}}, userPassword, "yan", ""},
		{"in none, and the first is away", &peopleElsewhere{fault: away}, &peopleElsewhere{}, userPassword, "", oauth.TemporarilyUnavailable},
		{"in the first, and the second is away", &peopleElsewhere{people: map[string]*store.User{"z": zoe}}, &peopleElsewhere{fault: away}, userPassword, "zoe", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFlow(t)
			test.first.usesName = true
			f.SignIns.Directories = []signin.PasswordDirectory{test.first, test.second}
			who, err := f.tryFrom("192.0.2.1", "z", test.password)
			if test.code != "" {
				tokentest.WantCode(t, err, test.code)
				return
			}
			f.must(err)
			if who.User.ID != test.want {
				t.Errorf("signed in as %q", who.User.ID)
			}
		})
	}
}

// TestP53ThePasswordGrant: the password grant with a directory's name or address → as on the sign-in page.
func TestP53ThePasswordGrant(t *testing.T) {
	f := newFlow(t)
	corp := &peopleElsewhere{name: "corp", usesName: true, people: map[string]*store.User{"zoe": f.outsider("zoe")}}
	f.SignIns.Directories = []signin.PasswordDirectory{corp}
	tokens, err := f.exchange(Request{
		GrantType: oauth.PasswordGrant, Login: PasswordParameters{Username: "zoe", Password: oauth.NewSecret(userPassword)}, Client: clients.Authentication{Address: "192.0.2.1"},
	})
	f.must(err)
	family, err := f.store.Families.Family(t.Context(), tokens.Claims.FamilyID)
	f.must(err)
	if tokens.Claims.Subject != "u-zoe" || family.SignIn.Provider != "corp" {
		t.Errorf("subject %q at %q", tokens.Claims.Subject, family.SignIn.Provider)
	}
	_, err = f.signInFor("", "zoe", "wrong password")
	tokentest.WantCode(t, err, oauth.InvalidGrant)
}
