package endpoint

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// signUpScene is a linkScene in which people with an address of acme.example can make an account.
type signUpScene struct {
	*linkScene
	registration *people.Registration
}

const (
	signUpTitle     = "Create an account"
	newAccountTitle = "Create your account"
	takenTitle      = "This address has an account"
	closedTitle     = "No account can be created"
)

func newSignUpScene(t *testing.T, edits ...func(*issuer.Settings)) *signUpScene {
	t.Helper()
	s := &signUpScene{linkScene: newLinkScene(t, edits...)}
	_, err := s.users.AddOrganisation(t.Context(), store.Organisation{ID: "acme", Name: "Acme"})
	s.must(err)
	links := *s.links
	links.Page = RegistrationPage(costIssuer)
	s.registration = &people.Registration{Links: &links, Rules: []people.RegistrationRule{{
		Domains: []string{"acme.example"}, Creation: signin.Creation{Organisation: "acme", Role: store.RoleBusinessManager}, Groups: []string{"staff", "all"},
	}}}
	s.must(s.OfferLinks(s.links, s.registration, entered))
	return s
}

// openID makes the issuer an OpenID provider.
func openID(settings *issuer.Settings) {
	settings.OpenID, settings.Scopes = true, oauth.NewScopeCatalogue().WithOpenID()
}

// portalRequest is an authorization request of the client portal, whose answer goes to portalURI.
const (
	portalURI     = "https://portal.example/cb"
	portalRequest = "/oauth/authorize?response_type=code&client_id=portal&scope=openid&redirect_uri=" + portalURI
)

// addPortal adds the client.
func (s *linkScene) addPortal() {
	s.t.Helper()
	portal := &store.Client{
		ID: "portal", Name: "Portal", RedirectURIs: []string{portalURI}, Scopes: oauth.Scopes{oauth.ScopeOpenID}, Grants: []oauth.GrantType{oauth.AuthorizationCode},
		Secrets: []store.ClientSecret{{Digest: oauth.NewSecret("secret").Digest()}},
	}
	portal.SetDefaults()
	s.must(s.store.Clients.AddClient(s.t.Context(), portal))
}

var (
	signUpLink = regexp.MustCompile(`<a href="(/oauth/sign_up[^"]*)"`)
	signInLink = regexp.MustCompile(`<a href="(/oauth/login[^"]*)"`)
)

// asks asks for an account.
func (b *sceneBrowser) asks(email string) scenePage {
	b.t.Helper()
	return b.fills(b.send("/oauth/sign_up", nil), "email", email)
}

// linkIn returns the link of the last letter to an address that has one, as a path.
func (s *signUpScene) linkIn(email string) string {
	s.t.Helper()
	letters := slices.DeleteFunc(s.letters(email), func(l mail.Letter) bool { return l.Kind != mail.Registration })
	if len(letters) == 0 {
		s.t.Fatalf("no letter to %s", email)
	}
	return strings.TrimPrefix(letters[len(letters)-1].Link, costIssuer)
}

// linkFor asks for an account and returns the link of the letter.
func (s *signUpScene) linkFor(email string) string {
	s.t.Helper()
	s.browser().asks(email)
	return s.linkIn(email)
}

// registers opens a link and makes the account.
func (b *sceneBrowser) registers(link, name, password string) scenePage {
	b.t.Helper()
	return b.fills(b.send(link, nil), "profile_name", name, "new_password", password, "new_password_again", password)
}

// count returns the number of users in the store.
func (s *signUpScene) count() int {
	s.t.Helper()
	all, err := s.users.Users(s.t.Context(), "")
	s.must(err)
	return len(all)
}

// TestE70NobodyRegistersWithoutTheLine: no rule of registration → no such page or link page, no way there on the sign-in page, and
// prompt=create is an unknown prompt that the metadata does not have.
func TestE70NobodyRegistersWithoutTheLine(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t, openID)
	s.addPortal()
	for _, path := range []string{"/oauth/sign_up", "/oauth/sign_up/link", "/oauth/sign_up/link?pending=x"} {
		for _, form := range []url.Values{nil, {"email": {"new@acme.example"}}} {
			if p := s.browser().send(path, form); p.status != http.StatusNotFound {
				t.Errorf("%s: %d", path, p.status)
			}
		}
	}
	if p := s.browser().send("/oauth/login", nil); strings.Contains(p.body, "sign_up") {
		t.Error("the sign-in page leads to a registration")
	}
	if strings.Contains(string(s.Metadata()), `"create"`) {
		t.Error("the metadata has create")
	}
	p := s.browser().send(portalRequest+"&prompt=create", nil)
	if location := p.header.Get("Location"); !strings.HasPrefix(location, portalURI+"?") || !strings.Contains(location, "error=invalid_request") {
		t.Errorf("prompt=create: %d %q", p.status, location)
	}
}

// TestE71RegisteringDoesNotTellWhoHasAnAccount: an account asked for with the address of nobody, a user, an invited, declared, disabled or
// provider's user, or a service account → the same page and one letter; the letter has a link only for nobody, tells the others how they sign
// in, and lets nobody in whom an operator has disabled. No address is in the log.
func TestE71RegisteringDoesNotTellWhoHasAnAccount(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t)
	_, err := s.users.AddUser(t.Context(), store.User{ID: "robot", Email: "robot@acme.example", Service: true}, oauth.Secret{})
	s.must(err)
	before := s.count()
	rows := []addressee{
		{"new@acme.example", mail.Registration}, {"ada@acme.example", mail.AccountExists}, {"ivy@acme.example", mail.AccountExists},
		{"dora@acme.example", mail.AccountExists}, {"eve@acme.example", mail.AccountExists}, {"max@acme.example", mail.AccountElsewhere},
		{"robot@acme.example", mail.AccountExists},
	}
	s.holdAlike((*sceneBrowser).asks, rows)
	for _, row := range rows {
		if letter := s.letters(row.email)[0]; (letter.Link != "") != (row.kind == mail.Registration) || letter.Name != "" && row.kind == mail.Registration {
			t.Errorf("%s: the letter is %+v", row.email, letter)
		}
	}
	if s.count() != before {
		t.Error("a user was added")
	}
	if got := s.logs.FilterMessage("letter sent").Len(); got != 7 {
		t.Errorf("%d letters in the audit log", got)
	}
}

// TestE72RegisteringDoesNotWaitForTheLetter: an account asked for while no letter can be queued → the answer comes before, whether or not the
// address has an account; a queue that fails → the same answer, and an error in the log.
func TestE72RegisteringDoesNotWaitForTheLetter(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t)
	s.holdUnwaiting((*sceneBrowser).asks, "new@acme.example", mail.Registration, "ada@acme.example")
}

// TestE73LettersToNewPeopleAreLimited: more than 3 letters an hour to an address, those for a forgotten password among them, or more than 20
// from a network, of 1,000 requests → 429 and none, and no user.
func TestE73LettersToNewPeopleAreLimited(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t)
	for _, email := range []string{"ada@acme.example", "new@acme.example"} {
		for i := range 5 {
			s.from = "192.0.2." + strconv.Itoa(i)
			ask := s.browser().asks
			if i == 1 {
				ask = s.browser().forgets
			}
			if p, want := ask(email), map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[i < 3]; p.status != want {
				t.Errorf("%s, letter %d: %d, want %d", email, i, p.status, want)
			}
		}
	}
	s.holdLetters("ada@acme.example", mail.AccountExists, mail.Reset, mail.AccountExists)
	s.holdLetters("new@acme.example", mail.Registration, mail.Registration)
	s.from = "2001:db8::/64"
	b, sent, before := s.browser(), 0, s.count()
	action, form := b.send("/oauth/sign_up", nil).fill()
	for i := range 1000 {
		form.Set("email", "user"+strconv.Itoa(i)+"@acme.example")
		switch p := b.send(action, form); p.status {
		case http.StatusOK:
			sent++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("%d %q", p.status, p.title())
		}
	}
	if got := len(s.letters("")); sent != 20 || got != 5+20 || s.count() != before {
		t.Errorf("%d of 1,000 accepted, %d letters, %d users more", sent, got, s.count()-before)
	}
	s.clock.Add(time.Hour)
	s.browser().asks("new@acme.example").holdPage(t, "an hour later", http.StatusOK, sentTitle)
}

// TestE74ALinkMakesTheUser: a link of a letter, opened in another browser → a form, then a user with the verified address and exactly the
// organisation, role and groups of the rule, who is signed in there and can sign in again; it is audited, without the password.
func TestE74ALinkMakesTheUser(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t)
	asking, here := s.browser(), s.browser()
	if !here.signsIn("grace@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	earlier := here.cookies["__Host-session"]
	asking.asks(" New+tag@ACME.example. ")
	link := s.linkIn("new+tag@acme.example")
	p := here.send(link, nil)
	p.holdPage(t, "the link", http.StatusOK, newAccountTitle)
	for _, want := range []string{`autocomplete="new-password"`, `autocomplete="name"`, `value="new&#43;tag@acme.example"`, "At least 12 characters"} {
		if !strings.Contains(p.body, want) {
			t.Errorf("no %s", want)
		}
	}
	if p = here.registers(link, " New Person ", nextPassword); p.status != http.StatusSeeOther || p.header.Get("Location") != "/oauth/account" {
		t.Fatalf("%d %q %q", p.status, p.header.Get("Location"), p.title())
	}
	if body := here.send("/oauth/account", nil).body; !strings.Contains(body, "New Person") || here.cookies["__Host-session"] == earlier {
		t.Error("no session of the new user")
	}
	user, err := s.users.UserNamed(t.Context(), "new+tag@acme.example")
	s.must(err)
	if user.Name != "New Person" || user.Organisation != "acme" || user.Role != store.RoleBusinessManager || !slices.Equal(user.AllGroups(), []string{"staff", "all"}) ||
		user.EmailVerifiedBy != store.VerifiedByMail || !user.IsActive() || user.External || user.Service || user.Profile != nil {
		t.Errorf("the user is %+v", user)
	}
	if asking.isSignedIn() || !asking.signsIn("new+tag@acme.example", nextPassword) {
		t.Error("the browser that asked was signed in, or the password is wrong")
	}
	if s.logs.FilterMessage("user registered").Len() != 1 {
		t.Error("no audit line")
	}
	for _, entry := range s.logs.All() {
		for _, f := range entry.Context {
			if strings.Contains(f.String, nextPassword) || strings.Contains(f.String, link[len(link)-20:]) {
				t.Errorf("%s holds a credential", entry.Message)
			}
		}
	}
	s.browser().asks("new+tag@acme.example")
	s.holdLetters("new+tag@acme.example", mail.Registration, mail.AccountExists)
}

// TestE75ALinkMakesOneUser: a link that was used, in the same browser, in another, eight times at once, or after its user was removed or has
// another address → the page that says that it was used; another link to the address → that the address has an account. One user in all.
func TestE75ALinkMakesOneUser(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t)
	link := s.linkFor("new@acme.example")
	s.clock.Add(time.Second)
	other := s.linkFor("new@acme.example")
	const n = 8
	before := s.count()
	browsers, forms := make([]*sceneBrowser, n), make([]url.Values, n)
	for i := range n {
		browsers[i] = s.browser()
		of := link
		if i%2 == 1 {
			of = other
		}
		_, forms[i] = browsers[i].send(of, nil).fill("new_password", nextPassword+strconv.Itoa(i), "new_password_again", nextPassword+strconv.Itoa(i))
	}
	statuses := make([]int, n)
	tokentest.Together(n, func(i int) error { statuses[i] = browsers[i].send("/oauth/sign_up/link", forms[i]).status; return nil })
	won := -1
	for i, status := range statuses {
		switch {
		case status == http.StatusSeeOther && won < 0:
			won = i
		case status != http.StatusBadRequest:
			t.Errorf("statuses %v", statuses)
		}
	}
	if won < 0 || s.count() != before+1 || !s.browser().signsIn("new@acme.example", nextPassword+strconv.Itoa(won)) {
		t.Fatalf("statuses %v, %d users more", statuses, s.count()-before)
	}
	if won%2 == 1 {
		link, other = other, link
	}
	for _, b := range []*sceneBrowser{browsers[won], s.browser()} {
		b.send(link, nil).holdPage(t, "again", http.StatusBadRequest, spentTitle)
		b.send(other, nil).holdPage(t, "another link", http.StatusBadRequest, takenTitle)
	}
	browsers[won].send("/oauth/sign_up/link", forms[won]).holdPage(t, "the form again", http.StatusBadRequest, spentTitle)

	user, err := s.users.UserNamed(t.Context(), "new@acme.example")
	s.must(err)
	s.must(s.users.UpdateUser(t.Context(), user.ID, store.UserChange{KeepsTokens: true, Edit: func(u *store.User) error { u.SetEmail("newer@acme.example"); return nil }}))
	s.browser().send(link, nil).holdPage(t, "after another address", http.StatusBadRequest, spentTitle)
	s.must(s.users.RemoveUser(t.Context(), user.ID))
	s.browser().registers(link, "", nextPassword).holdPage(t, "after a removal", http.StatusBadRequest, spentTitle)
	if s.count() != before {
		t.Error("the link has made another user")
	}
}

// TestE76OpeningALinkMakesNobody: GET and HEAD of a link by mail scanners, any number of times → the form, no session and no user, and the
// link still works.
func TestE76OpeningALinkMakesNobody(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t)
	link, before := s.linkFor("new@acme.example"), s.count()
	for range 20 {
		b := s.browser()
		b.send(link, nil, "User-Agent", "scanner").holdPage(t, "a scanner", http.StatusOK, newAccountTitle)
		b.edit = func(r *http.Request) *http.Request { r.Method = http.MethodHead; return r }
		if p := b.send(link, nil); p.status != http.StatusOK || b.cookies["__Host-session"] != "" {
			t.Errorf("HEAD: %d", p.status)
		}
	}
	if s.count() != before {
		t.Error("a user was added")
	}
	if p := s.browser().registers(link, "", nextPassword); p.status != http.StatusSeeOther {
		t.Errorf("the link: %d %q", p.status, p.title())
	}
}

// TestE77ALinkOfRegistrationEnds: a link after 30 minutes → expired; after the rule was removed or its domain is not allowed any more →
// closed; after another user got the address, who may be declared → taken; damaged, of another purpose, or of none → damaged. No user is made,
// neither from the link nor from its form that was open before. A link of registration does not set passwords.
func TestE77ALinkOfRegistrationEnds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(s *signUpScene)
		title  string
	}{
		"just in time":    {func(s *signUpScene) { s.clock.Add(30*time.Minute - time.Second) }, newAccountTitle},
		"too late":        {func(s *signUpScene) { s.clock.Add(30 * time.Minute) }, expiredTitle},
		"from the future": {func(s *signUpScene) { s.clock.Add(-time.Hour) }, expiredTitle},
		"another domain":  {func(s *signUpScene) { s.registration.Rules[0].Domains = []string{"other.example"} }, closedTitle},
		"no rule":         {func(s *signUpScene) { s.registration.Rules = nil }, closedTitle},
		"another user of that address": {func(s *signUpScene) {
			_, err := s.users.AddUser(s.t.Context(), store.User{ID: "u-new", Email: "new@acme.example"}, oauth.NewSecret(scenePassword))
			s.must(err)
		}, takenTitle},
		"a declared user of that address": {func(s *signUpScene) {
			declared, err := store.NewStaticDirectory(store.Declarations{Users: []*store.User{{ID: "u-declared", Email: "new@acme.example", Status: store.UserActive, External: true}}})
			s.must(err)
			s.users.Declared = declared
			s.users.Families.Directory = store.OverlayDirectory{Declared: declared, Stored: s.store.Directory()}
		}, takenTitle},
		"no organisation": {func(s *signUpScene) { s.must(s.users.RemoveOrganisation(s.t.Context(), "acme")) }, "Something went wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSignUpScene(t)
			link, b := s.linkFor("new@acme.example"), s.browser()
			_, form := b.send(link, nil).fill("new_password", nextPassword, "new_password_again", nextPassword)
			row.change(s)
			before, works := s.count(), row.title == newAccountTitle
			if got := s.browser().send(link, nil).title(); got != row.title && name != "no organisation" {
				t.Errorf("opened: %q, want %q", got, row.title)
			}
			p := b.send("/oauth/sign_up/link", form)
			if !works && p.title() != row.title || (p.status == http.StatusSeeOther) != works || (s.count() == before+1) != works || b.isSignedIn() != works {
				t.Errorf("used: %d %q, %d users more", p.status, p.title(), s.count()-before)
			}
		})
	}
	s := newSignUpScene(t)
	link, reset := s.linkFor("new@acme.example"), s.linkScene.linkFor("ada@acme.example")
	sealed := strings.TrimPrefix(link, "/oauth/sign_up/link?pending=")
	b := s.browser()
	for name, target := range map[string]string{
		"a reset": "/oauth/sign_up/link" + strings.TrimPrefix(reset, "/oauth/link"), "damaged": link[:len(link)-2] + "AA", "cut": link[:len(link)-9],
		"two": link + "&pending=" + sealed, "none": "/oauth/sign_up/link",
	} {
		b.send(target, nil).holdPage(t, name, http.StatusBadRequest, brokenTitle)
	}
	b.send("/oauth/link?pending="+sealed, nil).holdPage(t, "at the page for passwords", http.StatusBadRequest, spentTitle)
	if p := b.registers(link, "", nextPassword); p.status != http.StatusSeeOther {
		t.Fatalf("%d %q", p.status, p.title())
	}
	b.send("/oauth/link?pending="+sealed, nil).holdPage(t, "at the page for passwords, used", http.StatusBadRequest, spentTitle)
}

// TestE78FormsOfRegistrationComeFromOurPages: a form of either page without its token, with that of another browser, of another page or of
// another link, or from another origin → 403, no letter and no user.
func TestE78FormsOfRegistrationComeFromOurPages(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t)
	link, theirs := s.linkFor("new@acme.example"), s.linkFor("other@acme.example")
	b, before := s.browser(), s.count()
	token := func(p scenePage) string { _, form := p.fill(); return form.Get("form_token") }
	asks, opened := b.send("/oauth/sign_up", nil), b.send(link, nil)
	for name, of := range map[string]string{
		"none": "", "another browser": token(s.browser().send(link, nil)), "another link": token(b.send(theirs, nil)), "the other page": token(asks),
		"forgotten": token(b.send("/oauth/forgotten", nil)),
	} {
		_, form := opened.fill("new_password", nextPassword, "new_password_again", nextPassword, "form_token", of)
		if got := b.send("/oauth/sign_up/link", form); got.status != http.StatusForbidden {
			t.Errorf("the link, %s: %d %q", name, got.status, got.title())
		}
	}
	for name, of := range map[string]string{
		"none": "", "another browser": token(s.browser().send("/oauth/sign_up", nil)), "forgotten": token(b.send("/oauth/forgotten", nil)),
		"another step": token(b.send("/oauth/sign_up?pending=tokens", nil)),
	} {
		_, form := asks.fill("email", "third@acme.example", "form_token", of)
		if got := b.send("/oauth/sign_up", form); got.status != http.StatusForbidden {
			t.Errorf("asked, %s: %d %q", name, got.status, got.title())
		}
	}
	for _, headers := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
		_, form := opened.fill("new_password", nextPassword, "new_password_again", nextPassword)
		if got := b.send("/oauth/sign_up/link", form, headers...); got.status != http.StatusForbidden {
			t.Errorf("the link, %q: %d", headers, got.status)
		}
		_, form = asks.fill("email", "third@acme.example")
		if got := b.send("/oauth/sign_up", form, headers...); got.status != http.StatusForbidden {
			t.Errorf("asked, %q: %d", headers, got.status)
		}
	}
	s.holdLetters("third@acme.example")
	if s.count() != before {
		t.Error("a user was added")
	}
}

// TestE79OneSpellingOfADomain: an address in a domain beside, above or below the allowed one, in letters that look like it, or with a second @
// → refused openly and no letter; other spellings of the same address → a letter to its canonical form; no address, or one with a second
// header in it → a notice and no letter.
func TestE79OneSpellingOfADomain(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t)
	s.registration.Rules = append(s.registration.Rules, people.RegistrationRule{Domains: []string{"bücher.example"}})
	for i, row := range []struct{ typed, to, notice string }{
		{"a1@acme.example", "a1@acme.example", ""}, {" A2@Acme.EXAMPLE", "a2@acme.example", ""}, {"a3@acme.example.", "a3@acme.example", ""},
		{"a4@ａｃｍｅ.example", "a4@acme.example", ""}, {"a5+tag@acme.example", "a5+tag@acme.example", ""}, {"a6@BÜCHER.example", "a6@bücher.example", ""},
		{"b1@sub.acme.example", "", "No account"}, {"b2@example", "", "No account"}, {"b3@notacme.example", "", "No account"}, {"b4@acme.example.evil.example", "", "No account"},
		{"b5@аcme.example", "", "No account"}, {"b6@xn--bcher-kva.example", "", "No account"}, {"b7@acme-example", "", "No account"}, {"b8@acme..example", "", ""},
		{"c1@acme.example@evil.example", "", "not an e-mail address"}, {"c2@evil.example@acme.example", "", "not an e-mail address"},
		{`"c3@evil.example"@acme.example`, "", "not an e-mail address"}, {`"c4"@acme.example`, "", "not an e-mail address"}, {"c5 @acme.example", "", "not an e-mail address"},
		{"c6@evil.example,c6@acme.example", "", "not an e-mail address"}, {"<c7@acme.example>", "", "not an e-mail address"}, {"c8(@acme.example", "", "not an e-mail address"},
		{"c9@acme.example\r\nBcc: evil@evil.example", "", ""}, {"d1@acme.example%0aBcc:x@evil.example", "", "not an e-mail address"},
		{"d2\x00@acme.example", "", ""}, {strings.Repeat("d", 250) + "@acme.example", "", "not an e-mail address"}, {"", "", "not an e-mail address"}, {"d3", "", "not an e-mail address"},
		{"@acme.example", "", "not an e-mail address"}, {"robot@service.invalid", "", "not an e-mail address"},
	} {
		s.from = "192.0.2." + strconv.Itoa(i)
		before := len(s.letters(""))
		p := s.browser().asks(row.typed)
		if got := len(s.letters("")) - before; got != map[bool]int{true: 1, false: 0}[row.to != ""] {
			t.Errorf("%q: %d letters", row.typed, got)
		}
		switch {
		case row.to != "":
			p.holdPage(t, row.typed, http.StatusOK, sentTitle)
			s.holdLetters(row.to, mail.Registration)
		case row.notice != "" && (p.status != http.StatusOK || p.title() != signUpTitle || !strings.Contains(p.body, row.notice)):
			t.Errorf("%q: %d %q", row.typed, p.status, p.title())
		case p.title() == sentTitle:
			t.Errorf("%q is accepted", row.typed)
		}
	}
}

// TestE80NamesOfNewPeopleAreText: a name with markup, from right to left or of 255 bytes → kept as it is and shown as text; none → the address;
// one that is longer, or on two lines → the form again, which says so, with what was typed, and the link still works.
func TestE80NamesOfNewPeopleAreText(t *testing.T) {
	t.Parallel()
	for i, row := range []struct{ typed, want string }{
		{`<script>alert(1)</script>`, `<script>alert(1)</script>`}, {"\u202eevil", "\u202eevil"}, {"עדה לאבלייס", "עדה לאבלייס"}, {strings.Repeat("é", 127) + "x", strings.Repeat("é", 127) + "x"},
		{"", "new@acme.example"}, {"   ", "new@acme.example"}, {strings.Repeat("é", 128), ""}, {"Ada\r\nBcc: x", ""}, {"Ada\x1b[2J", ""},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			s := newSignUpScene(t)
			link, b := s.linkFor("new@acme.example"), s.browser()
			p := b.registers(link, row.typed, nextPassword)
			if strings.Contains(p.body, "<script>alert") {
				t.Error("markup in the page")
			}
			if row.want == "" {
				if p.holdPage(t, row.typed, http.StatusOK, newAccountTitle); !strings.Contains(p.body, "name cannot be used") {
					t.Error("no notice")
				}
				if p = b.registers(link, "Ada", nextPassword); p.status != http.StatusSeeOther {
					t.Errorf("afterwards: %d", p.status)
				}
				return
			}
			user, err := s.users.UserNamed(t.Context(), "new@acme.example")
			if err != nil || user.Name != row.want {
				t.Errorf("%+v, %v", user, err)
			}
			if body := b.send("/oauth/account", nil).body; strings.Contains(body, "<script>alert") {
				t.Error("markup in the account page")
			}
		})
	}
}

// TestE81PasswordsOfNewPeopleAreChecked: a password that is short, common, the address, or typed in two ways → the form again, which says what is
// wrong and keeps the name, and no user; the link still works.
func TestE81PasswordsOfNewPeopleAreChecked(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t)
	link, b, before := s.linkFor("new@acme.example"), s.browser(), s.count()
	for _, row := range []struct{ password, again, says string }{
		{"short one", "short one", "too short"}, {"password1234", "password1234", "Many people"}, {"new@acme.example", "new@acme.example", "your address"},
		{nextPassword, nextPassword + "x", "not the same"}, {"", "", "too short"},
	} {
		p := b.fills(b.send(link, nil), "profile_name", "Nova", "new_password", row.password, "new_password_again", row.again)
		if p.holdPage(t, row.says, http.StatusOK, newAccountTitle); !strings.Contains(p.body, row.says) || !strings.Contains(p.body, `value="Nova"`) {
			t.Errorf("%s: %s", row.says, p.body)
		}
	}
	if s.count() != before {
		t.Error("a user was added")
	}
	if p := b.registers(link, "Nova", nextPassword); p.status != http.StatusSeeOther {
		t.Errorf("%d %q", p.status, p.title())
	}
}

// TestE82ASecondFactorIsAskedOfNewPeople: a registration where everybody needs a second factor → the page that adds one, and no session
// before.
func TestE82ASecondFactorIsAskedOfNewPeople(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t, func(settings *issuer.Settings) {
		settings.Factors = signin.FactorPolicy{TOTP: true, Name: "Acme", Required: signin.FactorRule{Organisations: []string{"acme"}}}
	})
	b := s.browser()
	p := b.registers(s.linkFor("new@acme.example"), "", nextPassword)
	if !strings.HasPrefix(p.header.Get("Location"), "/oauth/factor/add?") || b.isSignedIn() {
		t.Errorf("%d %q", p.status, p.header.Get("Location"))
	}
	if _, err := s.users.UserNamed(t.Context(), "new@acme.example"); err != nil {
		t.Error(err)
	}
}

// awayDirectory is a directory that can be away.
type awayDirectory struct {
	store.Directory
	away bool
}

func (d *awayDirectory) User(ctx context.Context, id string) (*store.User, error) {
	if d.away {
		return nil, errAway
	}
	return d.Directory.User(ctx, id)
}

func (d *awayDirectory) UserByEmail(ctx context.Context, email string) (*store.User, error) {
	if d.away {
		return nil, errAway
	}
	return d.Directory.UserByEmail(ctx, email)
}

func (awayUsers) AddUser(context.Context, *store.User, bool, ...store.Identity) error { return errAway }

// awayFamilies is a store that is away for new sessions.
type awayFamilies struct{ families.Store }

func (awayFamilies) AddFamily(context.Context, *store.TokenFamily) (store.Outcome, error) {
	return store.Outcome(0), errAway
}

// TestE83NoHalfRegistrationWhileTheStoreIsAway: the store is away when an account is asked for → the same answer, and an error in the log; when
// a link is opened, or used → 503, no user, and afterwards it works; when only the session fails → the user is there and can sign in.
func TestE83NoHalfRegistrationWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t)
	fs := s.users.Families
	directory := &awayDirectory{Directory: fs.Directory}
	fs.Directory = directory
	link, b, before := s.linkFor("new@acme.example"), s.browser(), s.count()
	_, form := b.send(link, nil).fill("new_password", nextPassword, "new_password_again", nextPassword)

	directory.away = true
	s.browser().asks("other@acme.example").holdPage(t, "asked", http.StatusOK, sentTitle)
	s.settled()
	if s.logs.FilterMessage("letter not sent").Len() != 1 {
		t.Error("nobody learns of the failure")
	}
	if opened, used := s.browser().send(link, nil), b.send("/oauth/sign_up/link", form); opened.status != http.StatusServiceUnavailable || used.status != http.StatusServiceUnavailable {
		t.Errorf("opened %d, used %d", opened.status, used.status)
	}
	directory.away = false
	whole := s.users.Stored
	s.users.Stored = awayUsers{whole}
	if p := b.send("/oauth/sign_up/link", form); p.status != http.StatusServiceUnavailable || s.count() != before {
		t.Errorf("%d %q, %d users more", p.status, p.title(), s.count()-before)
	}
	s.users.Stored = whole
	opened := fs.Store
	fs.Store = awayFamilies{opened}
	if p := b.send("/oauth/sign_up/link", form); p.status != http.StatusServiceUnavailable || b.cookies["__Host-session"] != "" {
		t.Errorf("without a session: %d %q", p.status, p.title())
	}
	fs.Store = opened
	if s.count() != before+1 || !b.signsIn("new@acme.example", nextPassword) {
		t.Error("the user cannot sign in")
	}
}

// TestE84AnApplicationGetsItsAnswer: the sign-in page of an application's request leads to the registration, and the link, opened in the same
// browser, signs in and goes on with the request, also when the letter took 9 minutes; opened in another browser, or after the request has
// expired → the account page. A request that is too long for a link → the account page. The code of a device leads on in the same browser
// only.
func TestE84AnApplicationGetsItsAnswer(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		state   string
		late    time.Duration
		another bool
		want    string
	}{
		"at once": {"s", 0, false, "/oauth/consent?"}, "after 9 minutes": {"s", 9 * time.Minute, false, "/oauth/consent?"},
		"in another browser": {"s", 0, true, "/oauth/account"}, "too late": {"s", 11 * time.Minute, false, "/oauth/account"},
		"too long": {strings.Repeat("s1!", 1000), 0, false, "/oauth/account"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSignUpScene(t, openID)
			s.addPortal()
			b := s.browser()
			p := b.send(portalRequest+"&state="+url.QueryEscape(row.state), nil)
			found := signUpLink.FindStringSubmatch(p.body)
			if found == nil {
				t.Fatalf("no way to the registration: %s", p.body)
			}
			s.clock.Add(9 * time.Minute) // the person reads
			b.fills(b.send(found[1], nil), "email", "new@acme.example").holdPage(t, "asked", http.StatusOK, sentTitle)
			link := s.linkIn("new@acme.example")
			if len(link) > 2000 {
				t.Errorf("a link of %d bytes", len(link))
			}
			s.clock.Add(row.late)
			if row.another {
				b = s.browser()
			}
			if p = b.registers(link, "", nextPassword); p.status != http.StatusSeeOther || !strings.HasPrefix(p.header.Get("Location"), row.want) {
				t.Fatalf("%d %q", p.status, p.header.Get("Location"))
			}
			if row.want == "/oauth/account" {
				return
			}
			p = b.fills(b.send(p.header.Get("Location"), nil), "decision", "allow")
			if location := p.header.Get("Location"); !strings.HasPrefix(location, portalURI+"?") || !strings.Contains(location, "code=") || !strings.Contains(location, "state=s") {
				t.Errorf("%d %q", p.status, location)
			}
		})
	}
	// A code of a device is no secret. It leads on only where it was entered.
	for another, want := range map[bool]string{false: "/oauth/device?user_code=BCDF-GHJK", true: "/oauth/account"} {
		s := newSignUpScene(t)
		b := s.browser()
		b.fills(b.send("/oauth/sign_up?pending=device:BCDF-GHJK", nil), "email", "new@acme.example")
		if another {
			b = s.browser()
		}
		if p := b.registers(s.linkIn("new@acme.example"), "", nextPassword); p.header.Get("Location") != want {
			t.Errorf("a device, another browser %t: %d %q", another, p.status, p.header.Get("Location"))
		}
	}
}

// TestE85AnApplicationAsksForARegistration: prompt=create → the page for an account first, also for somebody who is signed in, with the
// login_hint, from which the sign-in page can be reached; the answer is about who has registered or signed in since. The metadata announces it;
// beside none it is refused.
func TestE85AnApplicationAsksForARegistration(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t, openID)
	s.addPortal()
	if !strings.Contains(string(s.Metadata()), `"prompt_values_supported":["none","login","consent","select_account","create"]`) {
		t.Errorf("the metadata is %s", s.Metadata())
	}
	b := s.browser()
	if !b.signsIn("ada@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	s.clock.Add(time.Second)
	p := b.send(portalRequest+"&prompt=create&login_hint=new@acme.example", nil)
	if p.holdPage(t, "the first page", http.StatusOK, signUpTitle); !strings.Contains(p.body, `value="new@acme.example"`) {
		t.Error("the hint is not there")
	}
	holdsTarget := func(p scenePage) { // browsers check where a form redirects to
		t.Helper()
		if policy := p.header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' https://portal.example") {
			t.Errorf("the policy is %q", policy)
		}
	}
	holdsTarget(p)
	b.fills(p, "email", "new@acme.example").holdPage(t, "asked", http.StatusOK, sentTitle)
	link := s.linkIn("new@acme.example")
	holdsTarget(b.send(link, nil))
	holdsTarget(b.registers(link, "", "short"))
	p = b.registers(link, "", nextPassword)
	if !strings.HasPrefix(p.header.Get("Location"), "/oauth/consent?") {
		t.Fatalf("registered: %d %q", p.status, p.header.Get("Location"))
	}
	if consent := b.send(p.header.Get("Location"), nil); !strings.Contains(consent.body, "new@acme.example") {
		t.Error("the consent is another user's")
	}
	b = s.browser()
	p = b.send(portalRequest+"&prompt=create", nil)
	signIn := signInLink.FindStringSubmatch(p.body)
	if signIn == nil {
		t.Fatalf("no way to the sign-in page: %s", p.body)
	}
	p = b.fills(b.send(signIn[1], nil), "email", "ada@acme.example", "password", scenePassword)
	if !strings.HasPrefix(p.header.Get("Location"), "/oauth/consent?") {
		t.Errorf("signed in: %d %q", p.status, p.header.Get("Location"))
	}
	if location := b.send(portalRequest+"&prompt=create+none", nil).header.Get("Location"); !strings.Contains(location, "error=invalid_request") {
		t.Errorf("beside none: %q", location)
	}
}

// TestE86TheRuleOfADomainComesFirst: a rule for anybody before one for a domain → the domain's rule for its people, that for anybody for
// all others; a role or group is nobody's but the rule's.
func TestE86TheRuleOfADomainComesFirst(t *testing.T) {
	t.Parallel()
	s := newSignUpScene(t)
	s.registration.Rules = append([]people.RegistrationRule{{Groups: []string{"guests"}}}, s.registration.Rules...)
	for email, want := range map[string]store.User{
		"new@acme.example": {Organisation: "acme", Role: store.RoleBusinessManager, Groups: []string{"staff", "all"}}, "new@else.example": {Role: store.RoleMember, Groups: []string{"guests"}},
	} {
		_, form := s.browser().send(s.linkFor(email), nil).fill()
		if len(form) != 2 {
			t.Errorf("the form has %v", form)
		}
		b := s.browser()
		p := b.fills(b.send(s.linkIn(email), nil), "new_password", nextPassword, "new_password_again", nextPassword, "role", "admin", "organisation", "other", "groups", "ops", "email", "ada@acme.example")
		user, err := s.users.UserNamed(t.Context(), email)
		if err != nil || user.Organisation != want.Organisation || user.Role != want.Role || !slices.Equal(user.Groups, want.Groups) {
			t.Errorf("%s: %d %+v, %v", email, p.status, user, err)
		}
	}
}
