package endpoint

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// changes sends a form of the account page.
func (b *sceneBrowser) changes(what string, fields ...string) scenePage {
	b.t.Helper()
	return b.fills(b.send("/oauth/account", nil), append(fields, "change", what)...)
}

// changesPassword sends the form for a new password.
func (b *sceneBrowser) changesPassword(present, next string) scenePage {
	b.t.Helper()
	return b.changes("password", "present_password", present, "new_password", next, "new_password_again", next)
}

const accountTitle = "Your account"

var alert = regexp.MustCompile(`role="alert">([^<]*)`)

// holdFault checks that the account page says what is wrong.
func (p scenePage) holdFault(t *testing.T, says string) {
	t.Helper()
	p.holdPage(t, says, http.StatusOK, accountTitle)
	if found := alert.FindStringSubmatch(p.body); found == nil || !strings.Contains(found[1], says) {
		t.Errorf("the notice is %q, want %q", found, says)
	}
}

// TestE53APasswordIsChangedByItsOwner: a new password with a wrong present one, without one, or a weak one → the page says so, and no change;
// with the right one → this browser has a new session, every other session has ended, and a letter says so. Wrong ones are counted as at the
// sign-in page.
func TestE53APasswordIsChangedByItsOwner(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	here, there := s.browser(), s.browser()
	if !here.signsIn("ada@acme.example", scenePassword) || !there.signsIn("ada@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	before := here.cookies["__Host-session"]
	here.changesPassword("not my password", nextPassword).holdFault(t, "not your present password")
	here.changesPassword("", nextPassword).holdFault(t, "not your present password")
	here.changesPassword(scenePassword, "short").holdFault(t, "too short")
	here.changes("password", "present_password", scenePassword, "new_password", nextPassword, "new_password_again", "x").holdFault(t, "not the same")
	if !there.isSignedIn() || here.cookies["__Host-session"] != before {
		t.Fatal("a refused form ended a session")
	}
	s.clock.Add(2 * time.Second)
	if p := here.changesPassword(scenePassword, nextPassword); p.header.Get("Location") != "/oauth/account?done=password" {
		t.Fatalf("%d %q", p.status, p.header.Get("Location"))
	}
	if !here.isSignedIn() || there.isSignedIn() || here.cookies["__Host-session"] == before {
		t.Error("not this session alone goes on")
	}
	if s.browser().signsIn("ada@acme.example", scenePassword) || !s.browser().signsIn("ada@acme.example", nextPassword) {
		t.Error("the password is not the new one")
	}
	s.holdLetters("ada@acme.example", mail.PasswordChanged)
	var p scenePage
	for range 12 {
		p = here.changesPassword("not my password", scenePassword)
	}
	if p.status != http.StatusTooManyRequests {
		t.Errorf("12 guesses: %d", p.status)
	}
}

// TestE54OfTwoNewPasswordsOneWins: two forms for a new password at once in one session → one password, one session; the other is asked to
// sign in.
func TestE54OfTwoNewPasswordsOneWins(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	b := s.browser()
	if !b.signsIn("ada@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	p := b.send("/oauth/account", nil)
	next := []string{nextPassword + " 0", nextPassword + " 1"}
	locations := make([]string, 2)
	tokentest.Together(2, func(i int) error {
		other := s.browser()
		for name, value := range b.cookies {
			other.cookies[name] = value
		}
		_, form := p.fill("change", "password", "present_password", scenePassword, "new_password", next[i], "new_password_again", next[i])
		locations[i] = other.send("/oauth/account", form).header.Get("Location")
		return nil
	})
	won := 0
	for i, location := range locations {
		if works := s.browser().signsIn("ada@acme.example", next[i]); works != (location == "/oauth/account?done=password") {
			t.Errorf("%q, and the password works: %t", locations, works)
		} else if works {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d passwords: %q", won, locations)
	}
}

// TestE55ARecentSecondFactorStandsInForThePassword: a session of two factors of at most 15 minutes ago → no present password is asked for; of
// longer ago, or of one factor → it is.
func TestE55ARecentSecondFactorStandsInForThePassword(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	b := s.browser()
	sign := func() {
		t.Helper()
		who := signin.SignedIn{User: s.user("u-ada"), AuthTime: s.clock.Now(), Proof: store.Proof{ACR: oauth.TwoFactorACR, AMR: []string{"pwd", "otp", "mfa"}}}
		session, cookie, err := s.account.browser.sessions.OpenSession(t.Context(), who, "", oauth.NewID())
		s.must(err)
		if session.Family.SignIn.Proof.ACR != oauth.TwoFactorACR {
			t.Fatal("not of two factors")
		}
		b.cookies["__Host-session"] = cookie.Reveal()
	}
	sign()
	s.clock.Add(15 * time.Minute)
	if p := b.send("/oauth/account", nil); !strings.Contains(p.body, `name="present_password"`) {
		t.Error("not asked for after 15 minutes")
	}
	b.changesPassword("", nextPassword).holdFault(t, "not your present password")
	sign()
	if p := b.send("/oauth/account", nil); strings.Contains(p.body, `name="present_password"`) {
		t.Error("asked for at once")
	}
	if p := b.changesPassword("", nextPassword); p.header.Get("Location") != "/oauth/account?done=password" {
		t.Errorf("%d %q", p.status, p.header.Get("Location"))
	}
	session, err := s.account.browser.sessions.Session(t.Context(), oauth.NewSecret(b.cookies["__Host-session"]))
	if err != nil || session == nil || session.Family.SignIn.Proof.ACR != oauth.TwoFactorACR {
		t.Error("the new session is not of two factors")
	}
}

// TestE56AnAddressIsChangedWithALink: a new address, with the present password → a link to it; used in any browser in which the user is signed
// in → the address is another and verified, sessions go on, the earlier address gets a note, and links to it are void. In a browser without
// that user → it asks to sign in, and changes nothing.
func TestE56AnAddressIsChangedWithALink(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	b, other, stranger := s.browser(), s.browser(), s.browser()
	if !b.signsIn("ada@acme.example", scenePassword) || !other.signsIn("ada@acme.example", scenePassword) || !stranger.signsIn("grace@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	reset := s.linkFor("ada@acme.example")
	for _, address := range []string{"", "ada", "a@b@c", "u-ada@unknown.invalid", "Ada <ada@new.example>", "ada@new.example\r\nBcc: eve@acme.example"} {
		b.changes("email", "new_email", address, "present_password", scenePassword).holdFault(t, "not an e-mail address")
	}
	b.changes("email", "new_email", "ada@new.example", "present_password", "wrong one").holdFault(t, "not your present password")
	s.holdLetters("ada@new.example")
	p := b.changes("email", "new_email", " Ada@New.example", "present_password", scenePassword)
	if p.header.Get("Location") != "/oauth/account?done=email_sent" {
		t.Fatalf("%d %q", p.status, p.header.Get("Location"))
	}
	s.holdLetters("ada@new.example", mail.AddressConfirm)
	link := strings.TrimPrefix(s.letters("ada@new.example")[0].Link, costIssuer)
	for _, b := range []*sceneBrowser{s.browser(), stranger} {
		p := b.send(link, nil)
		if p.holdPage(t, "without the user", http.StatusOK, "Confirm your address"); strings.Contains(p.body, "<form") || strings.Contains(p.body, "ada@") {
			t.Error("a form")
		}
		_, form := other.send(link, nil).fill()
		if p := b.send("/oauth/link", form); p.status == http.StatusSeeOther {
			t.Errorf("used without the user: %d", p.status)
		}
	}
	if p := other.fills(other.send(link, nil)); p.header.Get("Location") != "/oauth/account?done=email" {
		t.Fatalf("%d %q", p.status, p.header.Get("Location"))
	}
	if u := s.user("u-ada"); u.Email != "ada@new.example" || u.EmailVerifiedBy != store.VerifiedByMail {
		t.Errorf("%q, verified by %q", u.Email, u.EmailVerifiedBy)
	}
	if !b.isSignedIn() || !other.isSignedIn() {
		t.Error("a session has ended")
	}
	other.send(link, nil).holdPage(t, "again", http.StatusBadRequest, spentTitle)
	other.send(reset, nil).holdPage(t, "a link to the earlier address", http.StatusBadRequest, spentTitle)
	isNote := func(l mail.Letter) bool { return l.Kind == mail.AddressChanged && l.Detail == "ada@new.example" }
	if letters := s.letters("ada@acme.example"); !slices.ContainsFunc(letters, isNote) {
		t.Errorf("no note among %+v", letters)
	}
	if s.browser().signsIn("ada@acme.example", scenePassword) || !s.browser().signsIn("ada@new.example", scenePassword) {
		t.Error("the sign-in is not with the new address")
	}
}

// TestE57AnAddressOfAnotherUserIsRefused: an address that another user has → the same answer as for a free one, and no letter; one that another
// user gets before the link is used → the page that says so, and no change.
func TestE57AnAddressOfAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	b := s.browser()
	if !b.signsIn("ada@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	asks := func(address string) {
		t.Helper()
		if p := b.changes("email", "new_email", address, "present_password", scenePassword); p.header.Get("Location") != "/oauth/account?done=email_sent" {
			t.Errorf("%s: %d %q", address, p.status, p.header.Get("Location"))
		}
	}
	for _, taken := range []string{"grace@acme.example", "dora@acme.example"} {
		asks(taken)
		s.holdLetters(taken)
	}
	asks("new@acme.example")
	link := strings.TrimPrefix(s.letters("new@acme.example")[0].Link, costIssuer)
	_, err := s.users.AddUser(t.Context(), store.User{Email: "new@acme.example"}, oauth.NewSecret(scenePassword))
	s.must(err)
	b.fills(b.send(link, nil)).holdPage(t, "taken", http.StatusBadRequest, "This address has an account")
	if s.user("u-ada").Email != "ada@acme.example" {
		t.Error("the address has changed")
	}
}

// TestE58AProfileIsChangedByItsOwner: name, names and language → saved, and sessions go on; a line break or an unknown language → the page says
// so; what is declared or comes from a provider → cannot be changed, and the page says where it can. Groups, role and organisation in the form
// change nothing.
func TestE58AProfileIsChangedByItsOwner(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	b := s.browser()
	if !b.signsIn("ada@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	before := s.user("u-ada")
	p := b.changes("profile", "profile_name", "Ada Lovelace", "given_name", "Ada", "family_name", "Lovelace", "locale", "de", "role", "admin", "groups", "admins", "organisation", "acme", "email", "x@y.example")
	if p.header.Get("Location") != "/oauth/account?done=profile" {
		t.Fatalf("%d %q", p.status, p.header.Get("Location"))
	}
	u := s.user("u-ada")
	if u.Name != "Ada Lovelace" || u.GivenName != "Ada" || u.FamilyName != "Lovelace" || u.Locale != "de" || u.Role != before.Role || u.Groups != nil || u.Organisation != "" || u.Email != before.Email || u.Version != before.Version {
		t.Errorf("%+v %+v", u, u.Profile)
	}
	if !b.isSignedIn() {
		t.Error("the session has ended")
	}
	for _, bad := range [][]string{{"profile_name", "Ada\r\nBcc: x"}, {"locale", "not a language"}, {"given_name", strings.Repeat("x", 5000)}} {
		b.changes("profile", bad...).holdFault(t, "cannot be saved")
	}
	if s.user("u-ada").Name != "Ada Lovelace" {
		t.Error("changed by a refused form")
	}
	dora := s.browser()
	if !dora.signsIn("dora@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	p = dora.send("/oauth/account", nil)
	if !strings.Contains(p.body, "kept elsewhere") || strings.Contains(p.body, "new_password") || strings.Contains(p.body, "profile_name") {
		t.Error("a declared user can change something")
	}
	for _, what := range []string{"profile", "email", "password", "unknown"} {
		if p := dora.changes(what, "profile_name", "D", "new_email", "d@new.example", "present_password", scenePassword, "new_password", nextPassword, "new_password_again", nextPassword); p.status != http.StatusBadRequest {
			t.Errorf("%s of a declared user: %d", what, p.status)
		}
	}
	s.users.Post = nil
	if p := b.send("/oauth/account", nil); strings.Contains(p.body, "new_email") || !strings.Contains(p.body, "To change your address, ask") {
		t.Error("an address without mail")
	}
	if p := b.send("/oauth/account", url.Values{"change": {"password"}}); p.status != http.StatusForbidden {
		t.Errorf("a forged form: %d", p.status)
	}
}

// leavingUsers is a store whose client hangs up while a user is changed.
type leavingUsers struct {
	people.Store
	leave func()
}

func (l leavingUsers) ChangeUser(ctx context.Context, id string, change store.UserChange, end store.Ending) ([]store.Revocation, error) {
	l.leave()
	return l.Store.ChangeUser(ctx, id, change, end)
}

// TestE60HangingUpHidesNothing: a browser hangs up while its new password is stored → the password is changed, the audit log says so, and the
// owner gets the letter.
func TestE60HangingUpHidesNothing(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	b := s.browser()
	if !b.signsIn("ada@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	ctx, leave := context.WithCancel(t.Context())
	s.users.Stored = leavingUsers{s.users.Stored, leave}
	action, form := b.send("/oauth/account", nil).fill("change", "password", "present_password", scenePassword, "new_password", nextPassword, "new_password_again", nextPassword)
	b.edit = func(r *http.Request) *http.Request { return r.WithContext(ctx) }
	b.send(action, form)
	if ctx.Err() == nil {
		t.Fatal("it has not hung up")
	}
	s.holdLetters("ada@acme.example", mail.PasswordChanged)
	if s.logs.FilterMessage("password set").Len() != 1 {
		t.Errorf("the audit log has %v", s.logs.All())
	}
	if !s.browser().signsIn("ada@acme.example", nextPassword) {
		t.Error("the password is not the new one")
	}
}

// leavingConsents is a store whose client hangs up while a consent is stored.
type leavingConsents struct {
	families.Store
	leave func()
}

func (l leavingConsents) PutConsent(ctx context.Context, userID, clientID string, scopes oauth.Scopes, at time.Time) error {
	l.leave()
	return l.Store.PutConsent(ctx, userID, clientID, scopes, at)
}

// TestE102HangingUpHidesNoConsent: a browser hangs up while its consent is stored → the consent is kept, and the audit log has the authorization.
func TestE102HangingUpHidesNoConsent(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t, openID)
	s.addPortal()
	b := s.browser()
	if !b.signsIn("ada@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	ctx, leave := context.WithCancel(t.Context())
	s.users.Families.Store = leavingConsents{s.users.Families.Store, leave}
	action, form := b.send(portalRequest, nil).fill("decision", "allow")
	b.edit = func(r *http.Request) *http.Request { return r.WithContext(ctx) }
	b.send(action, form)
	if ctx.Err() == nil {
		t.Fatal("it has not hung up")
	}
	scopes, err := s.store.Families.Consent(t.Context(), "u-ada", "portal")
	if err != nil || len(scopes) == 0 {
		t.Errorf("the consent: %q, %v", scopes, err)
	}
	if s.logs.FilterMessage("authorization granted").Len() != 1 {
		t.Errorf("the audit log has %v", s.logs.All())
	}
}

// TestE61ANewPasswordIsNoSecondFactor: a session of one factor, of a user who has a second one meanwhile, and the present password → the password
// is changed, and the browser is asked for the second factor before it has a session.
func TestE61ANewPasswordIsNoSecondFactor(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	b := s.browser()
	if !b.signsIn("ada@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	s.must(s.store.Factors.AddFactor(t.Context(), &store.Factor{ID: "totp", UserID: "u-ada", Kind: store.TOTP, Data: []byte("sealed"), CreatedAt: s.clock.Now()}, s.user("u-ada").Version))
	s.clock.Add(2 * time.Second)
	p := b.changesPassword(scenePassword, nextPassword)
	if location := p.header.Get("Location"); !strings.HasPrefix(location, "/oauth/factor?") || b.isSignedIn() {
		t.Errorf("%d %q, signed in: %t", p.status, location, b.isSignedIn())
	}
}
