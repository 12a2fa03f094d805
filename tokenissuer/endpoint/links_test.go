package endpoint

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestE40TheAnswerDoesNotTellWhoHasAnAccount: a forgotten password of a user, of nobody, of a declared, disabled, invited or a provider's
// user → the same page; a letter only to users who have, or may set, a password here.
func TestE40TheAnswerDoesNotTellWhoHasAnAccount(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	s.holdAlike((*sceneBrowser).forgets, []addressee{
		{"ada@acme.example", mail.Reset}, {"ivy@acme.example", mail.Reset}, {"unknown@acme.example", ""}, {"dora@acme.example", ""}, {"max@acme.example", ""},
		{"eve@acme.example", ""},
	})
	p := s.browser().forgets("no address")
	if p.holdPage(t, "no address", http.StatusOK, resetTitle); !strings.Contains(p.body, `role="alert"`) {
		t.Error("no notice")
	}
}

// TestE41TheAnswerDoesNotWaitForTheLetter: a forgotten password while no letter can be queued → the answer comes before, whether or not the
// address has an account; a queue that fails → the same answer, and an error in the log.
func TestE41TheAnswerDoesNotWaitForTheLetter(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	s.holdUnwaiting((*sceneBrowser).forgets, "ada@acme.example", mail.Reset, "unknown@acme.example")
}

// TestE42LettersAreLimited: more than 3 letters an hour to an address, with or without an account, or more than 20 from a network, of 1,000
// requests → 429 and none; an hour later they are sent again.
func TestE42LettersAreLimited(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	for _, email := range []string{"ada@acme.example", "nobody@acme.example"} {
		for i := range 5 {
			s.from = "192.0.2." + strconv.Itoa(i)
			p := s.browser().forgets(email)
			if want := map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[i < 3]; p.status != want {
				t.Errorf("%s, letter %d: %d, want %d", email, i, p.status, want)
			}
		}
	}
	s.holdLetters("ada@acme.example", mail.Reset, mail.Reset, mail.Reset)
	s.from = "2001:db8::/64"
	b, sent := s.browser(), 0
	action, form := b.send("/oauth/forgotten", nil).fill()
	for i := range 1000 {
		form.Set("email", "user"+strconv.Itoa(i)+"@acme.example")
		if b.send(action, form).status == http.StatusOK {
			sent++
		}
	}
	if sent != 20 {
		t.Errorf("%d of 1,000 letters", sent)
	}
	s.clock.Add(time.Hour)
	s.browser().forgets("ada@acme.example").holdPage(t, "an hour later", http.StatusOK, sentTitle)
}

// TestE43AResetSignsInAndEndsTheRest: a link of a letter, opened in another browser → a form, then a session with a new id there; every
// earlier session, and what came of it, has ended; the earlier password is void, the new one works, and a letter says so.
func TestE43AResetSignsInAndEndsTheRest(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	earlier, here := s.browser(), s.browser()
	if !earlier.signsIn("ada@acme.example", scenePassword) || !here.signsIn("grace@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	before := here.cookies["__Host-session"]
	s.clock.Add(time.Minute)
	link := s.linkFor("ada@acme.example")
	p := here.send(link, nil)
	p.holdPage(t, "the link", http.StatusOK, resetTitle)
	for _, want := range []string{`autocomplete="new-password"`, `autocomplete="username"`, `value="ada@acme.example"`, "At least 12 characters"} {
		if !strings.Contains(p.body, want) {
			t.Errorf("no %s", want)
		}
	}
	if p = here.sets(link, nextPassword); p.status != http.StatusSeeOther || p.header.Get("Location") != "/oauth/account" {
		t.Fatalf("%d %q", p.status, p.header.Get("Location"))
	}
	if body := here.send("/oauth/account", nil).body; !strings.Contains(body, "ada@acme.example") || here.cookies["__Host-session"] == before {
		t.Error("no new session of the user")
	}
	if earlier.isSignedIn() {
		t.Error("the earlier session goes on")
	}
	if s.browser().signsIn("ada@acme.example", scenePassword) || !s.browser().signsIn("ada@acme.example", nextPassword) {
		t.Error("the password is not the new one")
	}
	s.holdLetters("ada@acme.example", mail.Reset, mail.PasswordChanged)
	if s.logs.FilterMessage("password set").Len() != 1 {
		t.Error("no audit line")
	}
	if got := s.user("u-ada").EmailVerifiedBy; got != store.VerifiedByMail {
		t.Errorf("the address is verified by %q", got)
	}
}

// TestE44ALinkWorksOnce: a link that was used, in the same browser, in another or twice at once; another link of before → the page that says
// that it was used, and no change.
func TestE44ALinkWorksOnce(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	link, other := s.linkFor("ada@acme.example"), s.linkFor("ada@acme.example")
	const n = 4
	browsers, forms := make([]*sceneBrowser, n), make([]url.Values, n)
	for i := range n {
		browsers[i] = s.browser()
		_, forms[i] = browsers[i].send(link, nil).fill("new_password", nextPassword+strconv.Itoa(i), "new_password_again", nextPassword+strconv.Itoa(i))
	}
	statuses := make([]int, n)
	tokentest.Together(n, func(i int) error { statuses[i] = browsers[i].send("/oauth/link", forms[i]).status; return nil })
	won := -1
	for i, status := range statuses {
		switch {
		case status == http.StatusSeeOther && won < 0:
			won = i
		case status != http.StatusBadRequest:
			t.Errorf("statuses %v", statuses)
		}
	}
	if won < 0 || !s.browser().signsIn("ada@acme.example", nextPassword+strconv.Itoa(won)) {
		t.Fatalf("nobody won: %v", statuses)
	}
	for _, b := range []*sceneBrowser{browsers[won], s.browser()} {
		b.send(link, nil).holdPage(t, "again", http.StatusBadRequest, spentTitle)
		b.send(other, nil).holdPage(t, "another link", http.StatusBadRequest, spentTitle)
	}
	browsers[0].send("/oauth/link", forms[0]).holdPage(t, "the form again", http.StatusBadRequest, spentTitle)
}

// TestE45OpeningALinkChangesNothing: GET and HEAD of a link by mail scanners, any number of times → the form, no cookie of a session, no
// write to the user, and the link still works.
func TestE45OpeningALinkChangesNothing(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	link, before := s.linkFor("ada@acme.example"), s.user("u-ada")
	for range 20 {
		b := s.browser()
		b.send(link, nil, "User-Agent", "scanner").holdPage(t, "a scanner", http.StatusOK, resetTitle)
		if b.cookies["__Host-session"] != "" {
			t.Error("a scanner is signed in")
		}
	}
	if after := s.user("u-ada"); after.Version != before.Version || !after.UpdatedAt.Equal(before.UpdatedAt) {
		t.Error("the user has changed")
	}
	if p := s.browser().sets(link, nextPassword); p.status != http.StatusSeeOther {
		t.Errorf("the link: %d %q", p.status, p.title())
	}
}

// TestE46ALinkEndsWithWhatItWasMadeFor: a link after 30 minutes → expired; after a change of password, address, role or status, or after the
// user was removed and another has the id and the address → spent; an invitation lives 7 days.
func TestE46ALinkEndsWithWhatItWasMadeFor(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(s *linkScene)
		title  string
	}{
		"just in time":     {func(s *linkScene) { s.clock.Add(30*time.Minute - time.Second) }, resetTitle},
		"too late":         {func(s *linkScene) { s.clock.Add(30 * time.Minute) }, expiredTitle},
		"from the future":  {func(s *linkScene) { s.clock.Add(-time.Hour) }, expiredTitle},
		"another password": {func(s *linkScene) { s.must(s.users.SetPassword(s.t.Context(), "u-ada", oauth.NewSecret(nextPassword))) }, spentTitle},
		"another address": {func(s *linkScene) {
			s.must(s.users.UpdateUser(s.t.Context(), "u-ada", store.UserChange{KeepsTokens: true, Edit: func(u *store.User) error { u.SetEmail("ada@new.example"); return nil }}))
		}, spentTitle},
		"disabled": {func(s *linkScene) { s.must(s.users.SetUserStatus(s.t.Context(), "u-ada", store.UserDisabled)) }, spentTitle},
		"disabled and enabled": {func(s *linkScene) {
			s.must(s.users.SetUserStatus(s.t.Context(), "u-ada", store.UserDisabled))
			s.must(s.users.SetUserStatus(s.t.Context(), "u-ada", store.UserActive))
		}, spentTitle},
		"removed": {func(s *linkScene) { s.must(s.users.RemoveUser(s.t.Context(), "u-ada")) }, spentTitle},
		"another user of that id": {func(s *linkScene) {
			s.must(s.users.RemoveUser(s.t.Context(), "u-ada"))
			s.clock.Add(40 * 24 * time.Hour)
			_, err := s.users.AddUser(s.t.Context(), store.User{ID: "u-ada", Email: "ada@acme.example"}, oauth.NewSecret(scenePassword))
			s.must(err)
			s.clock.Add(-40 * 24 * time.Hour)
		}, spentTitle},
		"another name": {func(s *linkScene) {
			s.must(s.users.UpdateUser(s.t.Context(), "u-ada", store.UserChange{KeepsTokens: true, Edit: func(u *store.User) error { u.Name = "A."; return nil }}))
		}, resetTitle},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLinkScene(t)
			link := s.linkFor("ada@acme.example")
			b := s.browser()
			_, form := b.send(link, nil).fill("new_password", nextPassword+"!", "new_password_again", nextPassword+"!")
			row.change(s)
			if got := s.browser().send(link, nil).title(); got != row.title {
				t.Errorf("opened: %q, want %q", got, row.title)
			}
			if p := b.send("/oauth/link", form); (p.status == http.StatusSeeOther) != (row.title == resetTitle) {
				t.Errorf("used: %d %q", p.status, p.title())
			}
			if s.browser().signsIn("ada@acme.example", nextPassword+"!") != (row.title == resetTitle) {
				t.Error("the password is another than the link says")
			}
		})
	}
	s := newLinkScene(t)
	made, err := s.links.Invite(t.Context(), "u-ivy")
	s.must(err)
	s.clock.Add(7*store.Day - time.Second)
	s.browser().send(pathOf(made), nil).holdPage(t, "an invitation", http.StatusOK, "Welcome")
	s.clock.Add(time.Second)
	s.browser().send(pathOf(made), nil).holdPage(t, "an old invitation", http.StatusBadRequest, expiredTitle)
}

// TestE47FormsOfLinksComeFromOurPages: a form without its token, with that of another browser, of another page or of another link, or from
// another origin → 403, and no change.
func TestE47FormsOfLinksComeFromOurPages(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	link, theirs := s.linkFor("ada@acme.example"), s.linkFor("grace@acme.example")
	b := s.browser()
	p := b.send(link, nil)
	fields := []string{"new_password", nextPassword, "new_password_again", nextPassword}
	token := func(p scenePage) string { _, form := p.fill(); return form.Get("form_token") }
	for name, of := range map[string]string{
		"none": "", "another browser": token(s.browser().send(link, nil)), "another link": token(b.send(theirs, nil)), "another page": token(b.send("/oauth/forgotten", nil)),
	} {
		_, form := p.fill(append(fields, "form_token", of)...)
		if got := b.send("/oauth/link", form); got.status != http.StatusForbidden {
			t.Errorf("%s: %d %q", name, got.status, got.title())
		}
	}
	_, form := p.fill(fields...)
	for _, headers := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
		if got := b.send("/oauth/link", form, headers...); got.status != http.StatusForbidden {
			t.Errorf("%q: %d", headers, got.status)
		}
		_, asks := b.send("/oauth/forgotten", nil).fill("email", "ivy@acme.example")
		if got := b.send("/oauth/forgotten", asks, headers...); got.status != http.StatusForbidden {
			t.Errorf("forgotten, %q: %d", headers, got.status)
		}
	}
	s.holdLetters("ivy@acme.example")
	if !s.browser().signsIn("ada@acme.example", scenePassword) {
		t.Error("the password has changed")
	}
}

// TestE48ASealOfAnotherKindIsNoLink: a sealed value of another kind, a damaged link, two links, or none → the page that says that the link is
// damaged; a link as a pending request of the sign-in page → refused.
func TestE48ASealOfAnotherKindIsNoLink(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	link := s.linkFor("ada@acme.example")
	sealed := strings.TrimPrefix(link, "/oauth/link?pending=")
	half, err := s.account.browser.seals.SealHalfSignIn(signin.SignedIn{User: s.user("u-ada")}, signin.HalfSignIn{ID: "1"}, oauth.NewSecret("x"))
	s.must(err)
	b := s.browser()
	for name, target := range map[string]string{
		"half a sign-in": "/oauth/link?pending=" + half.Reveal(), "damaged": link[:len(link)-2] + "AA", "cut": link[:len(link)-9], "two": link + "&pending=" + sealed, "none": "/oauth/link",
		"a section": "/oauth/link?pending=tokens",
	} {
		b.send(target, nil).holdPage(t, name, http.StatusBadRequest, brokenTitle)
	}
	if p := b.send("/oauth/login?pending="+sealed, nil); p.status != http.StatusBadRequest {
		t.Errorf("a link at the sign-in page: %d", p.status)
	}
}

// TestE49PasswordsOfLinksAreChecked: a password that is short, common, the address, or typed in two ways → the form again, which says what is
// wrong; the link still works. No password is in the page or in the log.
func TestE49PasswordsOfLinksAreChecked(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	link, b := s.linkFor("ada@acme.example"), s.browser()
	for _, row := range []struct{ password, again, says string }{
		{"short one", "short one", "too short"}, {"password1234", "password1234", "Many people"}, {"ada@acme.example", "ada@acme.example", "your address"},
		{strings.Repeat("long ", 300), strings.Repeat("long ", 300), "too long"}, {nextPassword, nextPassword + "x", "not the same"}, {"", "", "too short"},
	} {
		p := b.fills(b.send(link, nil), "new_password", row.password, "new_password_again", row.again)
		if p.holdPage(t, row.says, http.StatusOK, resetTitle); !strings.Contains(p.body, row.says) || row.password != "" && row.says != "your address" && strings.Contains(p.body, row.password) {
			t.Errorf("%s: %s", row.says, p.body)
		}
	}
	if p := b.sets(link, nextPassword); p.status != http.StatusSeeOther {
		t.Errorf("%d %q", p.status, p.title())
	}
	for _, entry := range s.logs.All() {
		for _, f := range entry.Context {
			if strings.Contains(f.String, nextPassword) || strings.Contains(f.String, link[len(link)-20:]) {
				t.Errorf("%s holds a credential", entry.Message)
			}
		}
	}
}

// TestE50ASecondFactorIsAskedForAfterAReset: a reset by a user with an authenticator → the page for its code, and no session before; a
// password of 8 characters is enough. A recovery removes the factors when it is used, and not before.
func TestE50ASecondFactorIsAskedForAfterAReset(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	add := func() {
		t.Helper()
		s.must(s.store.Factors.AddFactor(t.Context(), &store.Factor{ID: oauth.NewID(), UserID: "u-ada", Kind: store.TOTP, Data: []byte("x"), CreatedAt: s.clock.Now()}, s.user("u-ada").Version))
	}
	add()
	b := s.browser()
	link := s.linkFor("ada@acme.example")
	p := b.sets(link, "rain-gum")
	if !strings.HasPrefix(p.header.Get("Location"), "/oauth/factor?") || b.isSignedIn() {
		t.Errorf("%d %q", p.status, p.header.Get("Location"))
	}
	made, err := s.links.Recover(t.Context(), s.user("u-ada"), false)
	s.must(err)
	if left, _ := s.store.Factors.Factors(t.Context(), "u-ada"); len(left) != 1 {
		t.Error("the factors are removed before the link is used")
	}
	b = s.browser()
	b.sets(pathOf(made), "rain-gum").holdPage(t, "8 characters without a factor", http.StatusOK, "Get back into your account")
	if p := b.sets(pathOf(made), nextPassword); p.header.Get("Location") != "/oauth/account" || !b.isSignedIn() {
		t.Errorf("the recovery: %d %q", p.status, p.header.Get("Location"))
	}
	if left, _ := s.store.Factors.Factors(t.Context(), "u-ada"); len(left) != 0 {
		t.Error("the factors are left")
	}
}

// TestE51OperatorsLinks: an invitation of a user who has a password, a recovery by mail without mail, either for a declared, a disabled, a
// provider's user or a service account → an error that says what to do; a recovery ends the user's sessions at once, and the earlier
// password; letters go to the user.
func TestE51OperatorsLinks(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	_, err := s.users.AddUser(t.Context(), store.User{ID: "robot", Service: true}, oauth.Secret{})
	s.must(err)
	for _, id := range []string{"u-dora", "u-eve", "u-max", "robot", "u-ada"} {
		if _, err := s.links.Invite(t.Context(), id); err == nil {
			t.Errorf("%s is invited", id)
		}
		if id == "u-ada" {
			continue
		}
		if _, err := s.links.Recover(t.Context(), s.user(id), false); err == nil {
			t.Errorf("recovery of %s", id)
		}
	}
	b := s.browser()
	s.clock.Add(2 * time.Second)
	if !b.signsIn("ada@acme.example", scenePassword) {
		t.Fatal("not signed in")
	}
	s.clock.Add(2 * time.Second)
	_, err = s.links.Recover(t.Context(), s.user("u-ada"), true)
	s.must(err)
	if b.isSignedIn() {
		t.Error("the session goes on")
	}
	if b.signsIn("ada@acme.example", scenePassword) {
		t.Error("the earlier password is still good")
	}
	s.holdLetters("ada@acme.example", mail.Recovery)
	made, err := s.links.Invite(t.Context(), "u-ivy")
	s.must(err)
	again, err := s.links.Invite(t.Context(), "u-ivy")
	s.must(err)
	if made.URL.Reveal() == again.URL.Reveal() || !made.Mailed {
		t.Error("not a new link")
	}
	s.holdLetters("ivy@acme.example", mail.Invitation, mail.Invitation)
	if p := b.sets(pathOf(again), nextPassword); p.header.Get("Location") != "/oauth/account" {
		t.Errorf("the invitation: %d %q", p.status, p.header.Get("Location"))
	}
	b.send(pathOf(made), nil).holdPage(t, "the first invitation", http.StatusBadRequest, spentTitle)
	s.users.Post = nil
	if _, err := s.links.Recover(t.Context(), s.user("u-ada"), true); !store.IsInvalidInput(err) {
		t.Errorf("by mail without mail: %v", err)
	}
}

// awayUsers is a store that is away for changes.
type awayUsers struct{ people.Store }

// TestE52NothingHalfDoneWhileTheStoreIsAway: a link used while the store is away → 503 and no change; afterwards it works.
func TestE52NothingHalfDoneWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	s := newLinkScene(t)
	link, b := s.linkFor("ada@acme.example"), s.browser()
	whole := s.users.Stored
	s.users.Stored = awayUsers{whole}
	if p := b.sets(link, nextPassword); p.status != http.StatusServiceUnavailable {
		t.Errorf("%d %q", p.status, p.title())
	}
	s.users.Stored = whole
	if !s.browser().signsIn("ada@acme.example", scenePassword) {
		t.Error("the password has changed")
	}
	if p := b.sets(link, nextPassword); p.status != http.StatusSeeOther {
		t.Errorf("afterwards: %d %q", p.status, p.title())
	}
}

func (awayUsers) ChangeUser(context.Context, string, store.UserChange, store.Ending) ([]store.Revocation, error) {
	return nil, errAway
}
