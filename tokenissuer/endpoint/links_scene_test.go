package endpoint

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// linkScene is an issuer with mail, whose letters stay in the queue. Its people are ada and grace, who have passwords; the declared dora; max,
// who signs in at a provider; the disabled eve; and ivy, who was invited.
type linkScene struct {
	*Handler
	t       *testing.T
	clock   *tokentest.Clock
	store   store.Store
	users   *people.Users
	links   *people.Links
	signIns *signin.SignIns
	logs    *observer.ObservedLogs
	mails   *heldMails
	from    string
}

const (
	scenePassword = "a horse that reads"
	nextPassword  = "staples in the rain"
)

// heldMails is a queue that a test can stop: AddMail then waits, or fails.
type heldMails struct {
	store.MailStore
	mu      sync.Mutex
	held    chan struct{}
	failing error
}

func (m *heldMails) AddMail(ctx context.Context, mail store.Mail, limits store.MailLimits) error {
	m.mu.Lock()
	held, failing := m.held, m.failing
	m.mu.Unlock()
	if held != nil {
		<-held
	}
	if failing != nil {
		return failing
	}
	return m.MailStore.AddMail(ctx, mail, limits)
}

func newLinkScene(t *testing.T, edits ...func(*issuer.Settings)) *linkScene {
	t.Helper()
	st := teststore.New(t).Store
	s := &linkScene{t: t, clock: tokentest.NewClock(), store: st, mails: &heldMails{MailStore: st.Mails}, from: "192.0.2.1"}
	ks := new(keys.Set)
	key, err := keys.NewSigningKey(oauth.EdDSA, s.clock.Now())
	s.must(err)
	s.must(ks.Replace([]*keys.SigningKey{key}, oauth.EdDSA))
	master, err := keys.LoadMasterKey(t.Context(), st.Keys, nil, s.clock.Now())
	s.must(err)
	revocations := token.NewRevocationSet()
	revocations.MarkFresh(s.clock.Now())
	hash := passwords.Hash(oauth.NewSecret(scenePassword))
	declared, err := store.NewStaticDirectory(store.Declarations{Users: []*store.User{{ID: "u-dora", Email: "dora@acme.example", Name: "Dora", Status: store.UserActive, PasswordHash: hash}}})
	s.must(err)
	post := &mail.Post{
		Now: s.clock.Now, Lost: func(kind mail.Kind, id string, err error) { t.Errorf("%s for %s: %v", kind, id, err) },
		Opened: mail.Opened{Store: s.mails, Master: master},
	}
	settings := issuer.Settings{Policy: clients.Policy{URL: costIssuer, Audience: []string{costIssuer}}, Lifetimes: store.DefaultLifetimes}
	for _, edit := range edits {
		edit(&settings)
	}
	hasher := passwords.NewHasher()
	hasher.Patience = time.Minute // other tests may use all cores
	parts := issuer.New(settings, issuer.Node{
		Keys: ks, Verifier: token.NewVerifier(costIssuer, ks, revocations, time.Hour, s.clock.Now), Revocations: revocations, Now: s.clock.Now, Hasher: hasher, Post: post,
		Limits: attempts.Limits{AccountLimit: attempts.Limit{Failures: 10, Window: time.Minute}, Attempts: attempts.NewCounter(10_000)},
	})
	parts.Families.Opened = families.Opened{
		Store: families.StoreOf(st), Directory: store.OverlayDirectory{Declared: declared, Stored: st.Directory()}, Master: master, JTIMAC: token.NewJTIMAC(master),
	}
	s.signIns = parts.SignIns
	s.users = &people.Users{Families: parts.Families, Hasher: hasher, Usernames: token.NewUsernameCache(), Declared: declared, Stored: people.StoreOf(st), Post: post}
	s.links = &people.Links{Users: s.users, Seals: parts.Seals, Page: LinkPage(costIssuer)}
	for _, u := range []store.User{
		{ID: "u-ada", Email: "ada@acme.example", Name: "Ada", PasswordHash: hash}, {ID: "u-grace", Email: "grace@acme.example", Name: "Grace", PasswordHash: hash},
		{ID: "u-max", Email: "max@acme.example", Name: "Max", External: true}, {ID: "u-ivy", Email: "ivy@acme.example", Name: "Ivy"},
		{ID: "u-eve", Email: "eve@acme.example", Name: "Eve", PasswordHash: hash},
	} {
		_, err := s.users.AddUser(t.Context(), u, oauth.Secret{})
		s.must(err)
	}
	s.must(s.users.SetUserStatus(t.Context(), "u-eve", store.UserDisabled))
	core, logs := observer.New(zapcore.InfoLevel)
	s.logs = logs
	shown, err := pages.New(pages.Settings{})
	s.must(err)
	s.Handler, err = NewHandler(parts, grants.New(parts, grants.Accepted{}), NewAudit(zap.New(core), func(*http.Request) string { return s.from }), noCounters{}, SignInMethods{}, shown)
	s.must(err)
	s.must(s.OfferLinks(s.links, nil, entered))
	return s
}

// entered is an Enter of a store that never closes.
func entered(ctx context.Context) (context.Context, func(), error) { return ctx, func() {}, nil }

func (s *linkScene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *linkScene) user(id string) *store.User {
	s.t.Helper()
	user, err := s.users.User(s.t.Context(), id)
	s.must(err)
	return user
}

// settled waits until nothing happens behind responses any more.
func (s *linkScene) settled() {
	s.t.Helper()
	tokentest.Eventually(s.t, "all letters are written", func() bool { return len(s.account.signIn.links.behind) == 0 })
}

// letters returns the letters to an address, or all, oldest first.
func (s *linkScene) letters(to string) (found []mail.Letter) {
	s.t.Helper()
	s.settled()
	all, err := s.store.Mails.DueMails(s.t.Context(), s.clock.Now().Add(time.Hour), 10_000)
	s.must(err)
	for _, m := range all {
		letter, _, err := keys.UnwrapAny[mail.Letter](s.users.Families.Master.Mails, m.ID+"\x00"+m.To, oauth.NewSecret(string(m.Sealed)))
		s.must(err)
		if to == "" || letter.To == to {
			found = append(found, letter)
		}
	}
	slices.SortStableFunc(found, func(a, b mail.Letter) int { return a.At.Compare(b.At) })
	return found
}

// holdLetters checks the kinds of the letters to an address.
func (s *linkScene) holdLetters(to string, kinds ...mail.Kind) {
	s.t.Helper()
	var got []mail.Kind
	for _, l := range s.letters(to) {
		got = append(got, l.Kind)
	}
	slices.Sort(got)
	slices.Sort(kinds)
	if !slices.Equal(got, kinds) {
		s.t.Errorf("letters to %q: %q, want %q", to, got, kinds)
	}
}

// sceneBrowser is a browser with its cookies.
type sceneBrowser struct {
	*linkScene
	cookies map[string]string
	// edit changes each request; nil: none is changed.
	edit func(*http.Request) *http.Request
}

func (s *linkScene) browser() *sceneBrowser {
	return &sceneBrowser{linkScene: s, cookies: make(map[string]string)}
}

// scenePage is a response.
type scenePage struct {
	status int
	header http.Header
	body   string
}

// send sends a request as a browser does. A form is sent by POST.
func (b *sceneBrowser) send(target string, form url.Values, headers ...string) scenePage {
	b.t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	if form != nil {
		r = httptest.NewRequest(http.MethodPost, target, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", costIssuer)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	r.Header.Set("Accept", "text/html")
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if b.edit != nil {
		r = b.edit(r)
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	for _, cookie := range w.Result().Cookies() {
		if b.cookies[cookie.Name] = cookie.Value; cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
		}
	}
	return scenePage{w.Code, w.Header(), w.Body.String()}
}

var (
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
	formAction  = regexp.MustCompile(`<form[^>]* action="([^"]*)"`)
	heading     = regexp.MustCompile(`(?s)<h1>(.*?)</h1>`)
)

// fill returns the first form of a page, with fields.
func (p scenePage) fill(fields ...string) (action string, form url.Values) {
	form = make(url.Values)
	if found := formAction.FindStringSubmatchIndex(p.body); found != nil {
		action = p.body[found[2]:found[3]]
		content, _, _ := strings.Cut(p.body[found[0]:], "</form>")
		for _, hidden := range hiddenField.FindAllStringSubmatch(content, -1) {
			form.Set(hidden[1], html.UnescapeString(hidden[2]))
		}
	}
	for pair := range slices.Chunk(fields, 2) {
		form.Set(pair[0], pair[1])
	}
	return action, form
}

func (p scenePage) title() string {
	if found := heading.FindStringSubmatch(p.body); found != nil {
		return html.UnescapeString(found[1])
	}
	return ""
}

// fills fills the first form of a page and sends it.
func (b *sceneBrowser) fills(p scenePage, fields ...string) scenePage {
	b.t.Helper()
	action, form := p.fill(fields...)
	if action == "" {
		b.t.Fatalf("no form: %d %s", p.status, p.body)
	}
	return b.send(action, form)
}

// signsIn signs in with a password, and reports whether that led to a session.
func (b *sceneBrowser) signsIn(email, password string) bool {
	b.t.Helper()
	return b.fills(b.send("/oauth/login?switch=1", nil), "email", email, "password", password).status == http.StatusSeeOther && b.isSignedIn()
}

func (b *sceneBrowser) isSignedIn() bool {
	b.t.Helper()
	return b.send("/oauth/account", nil).status == http.StatusOK
}

// forgets asks for a link to an address.
func (b *sceneBrowser) forgets(email string) scenePage {
	b.t.Helper()
	return b.fills(b.send("/oauth/forgotten", nil), "email", email)
}

// addressee is an address for which a letter is asked, and the kind of the letter; "": there is none.
type addressee struct {
	email string
	kind  mail.Kind
}

// holdAlike asks for a letter to each address. The page must be the same for all, and no address may be in the log.
func (s *linkScene) holdAlike(ask func(*sceneBrowser, string) scenePage, rows []addressee) {
	s.t.Helper()
	var first scenePage
	for i, row := range rows {
		p := ask(s.browser(), row.email)
		p.holdPage(s.t, row.email, http.StatusOK, sentTitle)
		p.header.Del("Set-Cookie")
		if i == 0 {
			first = p
		}
		if p.body != first.body || len(p.header) != len(first.header) {
			s.t.Errorf("%s: another answer", row.email)
		}
		if row.kind == "" {
			s.holdLetters(row.email)
			continue
		}
		s.holdLetters(row.email, row.kind)
	}
	for _, entry := range s.logs.All() {
		for _, f := range entry.Context {
			if strings.Contains(f.String, "@") {
				s.t.Errorf("an address in the log: %s", f.String)
			}
		}
	}
}

// holdUnwaiting asks for letters while none can be queued. The page must come before, whether the address gets a letter or the other one asked
// for does; and where the queue fails the page must be the same and the log tell it.
func (s *linkScene) holdUnwaiting(ask func(*sceneBrowser, string) scenePage, email string, kind mail.Kind, other string) {
	s.t.Helper()
	s.mails.held = make(chan struct{})
	for _, to := range []string{email, other} {
		ask(s.browser(), to).holdPage(s.t, to, http.StatusOK, sentTitle) // would wait for ever
	}
	close(s.mails.held)
	s.holdLetters(email, kind)
	s.mails.mu.Lock()
	s.mails.held, s.mails.failing = nil, errAway
	s.mails.mu.Unlock()
	ask(s.browser(), "grace@acme.example").holdPage(s.t, "a failing queue", http.StatusOK, sentTitle)
	s.settled()
	if s.logs.FilterMessage("letter not sent").Len() != 1 {
		s.t.Error("the failure is not in the log")
	}
}

// linkFor asks for a letter and returns its link, as a path.
func (s *linkScene) linkFor(email string) string {
	s.t.Helper()
	s.browser().forgets(email)
	letters := slices.DeleteFunc(s.letters(email), func(l mail.Letter) bool { return l.Kind != mail.Reset })
	if len(letters) == 0 {
		s.t.Fatalf("no letter to %s", email)
	}
	return strings.TrimPrefix(letters[len(letters)-1].Link, costIssuer)
}

// path returns a made link as a path.
func pathOf(made people.MadeLink) string { return strings.TrimPrefix(made.URL.Reveal(), costIssuer) }

// sets opens a link and sets a password with it.
func (b *sceneBrowser) sets(link, password string) scenePage {
	b.t.Helper()
	return b.fills(b.send(link, nil), "new_password", password, "new_password_again", password)
}

// holdPage checks the status and title of a page that is not stored and sends no referrer.
func (p scenePage) holdPage(t *testing.T, what string, status int, title string) {
	t.Helper()
	if p.status != status || p.title() != title {
		t.Errorf("%s: %d %q, want %d %q: Location %q", what, p.status, p.title(), status, title, p.header.Get("Location"))
	}
	if p.header.Get("Cache-Control") != "no-store" || p.header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("%s: Cache-Control %q, Referrer-Policy %q", what, p.header.Get("Cache-Control"), p.header.Get("Referrer-Policy"))
	}
}

const (
	spentTitle   = "This link was used"
	expiredTitle = "This link has expired"
	brokenTitle  = "This link is damaged"
	resetTitle   = "Choose a new password"
	sentTitle    = "Look at your mail"
)

var errAway = store.Unavailable(errors.New("the store is away"))
