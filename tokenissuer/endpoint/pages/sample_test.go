package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

// samples returns the pages, with and without their optional parts. Each field contains what fill returns for its name.
func samples(fill func(field string) string) map[string]Page {
	form := Form{Action: fill("action"), Token: fill("token"), Pending: fill("pending")}
	since := time.Date(2026, time.March, 3, 9, 5, 0, 0, time.UTC)
	scopes := []Scope{
		{Name: "public"}, {Name: "trusted"}, {Name: "refresh_token"}, {Name: "offline_access"}, {Name: "groups"},
		{Name: "openid", Fixed: true}, {Name: "profile"}, {Name: "email"}, {Name: "phone"}, {Name: "address"}, {Name: fill("scope")},
		{Name: "orders", Words: fill("words")},
	}
	return map[string]Page{
		"signin":           SignIn{Form: form, ClientName: fill("client")},
		"signin known":     SignIn{Form: form, Email: fill("email"), Notice: WrongCredentials},
		"signin providers": SignIn{Form: form, Usernames: true, Providers: []Provider{{"corp", fill("title")}, {"other", fill("another title")}}, SignInWays: SignInWays{Choose: true}},
		"signin provider alone": SignIn{
			Form: form, WithoutPasswords: true, Providers: []Provider{{"corp", fill("title")}}, Notice: ProviderUnavailable, AtProvider: fill("title"),
		},
		"signin passkey": SignIn{Form: form, Passkey: PasskeySignIn{Request: fill("request")}},
		"signin passkey unknown": SignIn{
			Form: form, Passkey: PasskeySignIn{Request: fill("request"), Unknown: fill("unknown")}, Notice: UnknownPasskey, Providers: []Provider{{"corp", fill("title")}},
		},
		"consent": Consent{
			Form: form, ClientName: fill("client"), ClientID: fill("client id"), Host: fill("host"), Scopes: scopes,
			Viewer: Viewer{User: fill("user"), Email: fill("email"), SwitchURL: fill("switch")}, AccountURL: fill("account"),
		},
		"consent of a host": Consent{
			Form: form, ClientName: fill("client"), ClientID: fill("client id"), Host: fill("host"), Scopes: scopes, SelfMade: true, DescribedBy: fill("described by"), OnDevice: true,
			Viewer: Viewer{User: fill("user"), Email: fill("email"), SwitchURL: fill("switch")}, AccountURL: fill("account"),
		},
		"consent of nobody": Consent{
			Form: form, ClientName: fill("client"), ClientID: fill("client id"), Host: fill("host"), Scopes: scopes, SelfMade: true,
			Viewer: Viewer{User: fill("user"), Email: fill("email"), SwitchURL: fill("switch")}, AccountURL: fill("account"),
		},
		"consent nameless": Consent{
			Form: form, ClientID: fill("client id"), Host: fill("host"),
			Viewer: Viewer{User: fill("email"), Email: fill("email"), SwitchURL: fill("switch")}, AccountURL: fill("account"),
		},
		"consent of a device": Consent{
			Form: form, ClientName: fill("client"), ClientID: fill("client id"), Scopes: scopes, Device: &AskingDevice{Address: fill("address"), AskedAt: since},
			Viewer: Viewer{User: fill("user"), Email: fill("email"), SwitchURL: fill("switch")}, AccountURL: fill("account"),
		},
		"device":         Device{Form: form, Viewer: Viewer{User: fill("user"), Email: fill("email"), SwitchURL: fill("switch")}},
		"device filled":  Device{Form: form, UserCode: fill("user code"), Viewer: Viewer{User: fill("user"), Email: fill("email"), SwitchURL: fill("switch")}},
		"device wrong":   Device{Form: form, UserCode: fill("user code"), Notice: WrongUserCode, Viewer: Viewer{User: fill("user"), Email: fill("email"), SwitchURL: fill("switch")}},
		"device paused":  Device{Form: form, Notice: TooManyCodes, RetryAfter: time.Minute, Viewer: Viewer{User: fill("email"), Email: fill("email"), SwitchURL: fill("switch")}},
		"device allowed": DeviceDecided{Allowed: true, ClientName: fill("client"), AccountURL: fill("account")},
		"device denied":  DeviceDecided{ClientName: fill("client"), AccountURL: fill("account")},
		"account": Account{
			Form: form, User: fill("user"), Email: fill("email"), Memberships: Memberships{Organisation: fill("organisation"), Role: fill("role")},
			SignOutURL: fill("sign out"),
			Applications: []Application{
				{ID: fill("id"), Name: fill("application"), Scopes: scopes, Since: since, LastUsed: since.AddDate(0, 3, 10)},
				{ID: "new", Name: "New", Since: since},
			},
			Sessions: []Session{
				{ID: fill("id"), Note: fill("note"), Since: since, LastSeen: since.Add(time.Hour), Current: true, SignsOutOf: []string{fill("application"), fill("another application")},
					Hosts: []Host{{ID: fill("id"), Name: fill("host"), LastUsed: since.Add(time.Hour)}, {ID: "other", Name: fill("another host")}}},
				{ID: fill("id"), Since: since, LastSeen: since.Add(time.Hour)},
			},
		},
		"account identities": Account{
			Form: form, User: fill("user"), Email: fill("email"), Identities: []Identity{
				{ID: "corp " + fill("subject"), Provider: fill("title"), LinkedAt: since, LastUsed: since.AddDate(0, 1, 0)},
				{ID: "other 1", Provider: fill("another title"), LinkedAt: since, Only: true},
			},
		},
		"account tokens": Account{
			Form: form, User: fill("user"), Email: fill("email"), Tokens: &Tokens{
				Made: &MadeToken{Name: fill("token name"), Text: fill("token text")},
				List: []Token{
					{ID: fill("id"), Name: fill("token name"), Scopes: scopes[10:], Since: since, ExpiresAt: since.AddDate(0, 3, 0)},
					{ID: "old", Name: fill("another token name"), Since: since, ExpiresAt: since.Add(time.Hour), Expired: true, LastUsed: since},
				},
				New: newToken(fill("token name"), scopes[10:]),
			},
		},
		"account factors": Account{
			Form: form, User: fill("user"), Email: fill("email"), Done: FactorRemoved, Factors: &Factors{
				List: []Factor{
					{ID: fill("id"), Kind: "totp", Since: since, LastUsed: since.AddDate(0, 1, 0)}, {ID: "named", Kind: "totp", Name: fill("factor name"), Since: since},
					{ID: "codes", Kind: "recovery_codes", Since: since, Left: 1}, {ID: "more", Kind: "recovery_codes", Left: 10},
				},
				CanAdd: true, CanRenew: true,
			},
		},
		"account factors locked": Account{
			Form: form, User: fill("user"), Email: fill("email"), Factors: &Factors{List: []Factor{{ID: fill("id"), Kind: "totp", Since: since}}, SignIn: true},
		},
		"account no factors": Account{Form: form, User: fill("user"), Email: fill("email"), Factors: &Factors{CanAdd: true}},
		"account passkeys": Account{
			Form: form, User: fill("user"), Email: fill("email"), Done: FactorRenamed, Factors: &Factors{
				List: []Factor{
					{ID: fill("id"), Kind: "passkey", Name: fill("factor name"), Since: since, LastUsed: since.AddDate(0, 1, 0)},
					{ID: "old", Kind: "passkey", Since: since, Elsewhere: true}, {ID: "codes", Kind: "recovery_codes", Since: since, Left: 10},
				},
				CanAdd: true, CanAddPasskey: true, CanRenew: true, Accepted: fill("accepted"),
			},
		},
		"account passkeys locked": Account{Form: form, User: fill("user"), Email: fill("email"), Done: FactorAdded, Factors: &Factors{
			List: []Factor{{ID: fill("id"), Kind: "passkey", Name: fill("factor name"), Since: since}}, SignIn: true, CanAddPasskey: true, Accepted: fill("accepted"),
		}},
		"factor":             SecondFactor{Form: form, Email: fill("email"), RestartURL: fill("restart"), Authenticator: true},
		"factor recovery":    SecondFactor{Form: form, Email: fill("email"), RestartURL: fill("restart")},
		"factor passkey":     SecondFactor{Form: form, Email: fill("email"), RestartURL: fill("restart"), Passkey: fill("request")},
		"factor passkey too": SecondFactor{Form: form, Email: fill("email"), RestartURL: fill("restart"), Passkey: fill("request"), Authenticator: true, Notice: WrongPasskey},
		"factor wrong":       SecondFactor{Form: form, Email: fill("email"), RestartURL: fill("restart"), Authenticator: true, Notice: WrongCode},
		"factor paused":      SecondFactor{Form: form, Email: fill("email"), RestartURL: fill("restart"), Authenticator: true, Notice: TooManyCodes, RetryAfter: time.Minute},
		"enrolment passkey":  Enrolment{Form: form, Passkey: fill("request"), CancelURL: fill("cancel"), Required: true, Notice: TooManyPasskeys},
		"enrolment passkey or code": Enrolment{
			Form: form, Passkey: fill("request"), Secret: fill("secret"), Picture: []byte("png"), CancelURL: fill("cancel"), Required: true,
		},
		"codes of the first": Codes{Codes: []string{fill("code")}, ContinueURL: fill("continue"), Added: true, Passkey: true},
		"enrolment":          Enrolment{Form: form, Secret: fill("secret"), Picture: []byte("png"), CancelURL: fill("cancel"), Required: true},
		"enrolment again":    Enrolment{Form: form, Secret: fill("secret"), Picture: []byte("png"), CancelURL: fill("cancel"), Notice: AlreadyEnrolled},
		"codes":              Codes{Codes: []string{fill("code"), fill("another code")}, ContinueURL: fill("continue"), Added: true},
		"forgotten":          AskLetter{For: ForgottenPassword, Form: form, SignInURL: fill("sign in")},
		"forgotten wrong":    AskLetter{For: ForgottenPassword, Form: form, SignInURL: fill("sign in"), Email: fill("email"), Notice: NoAddress},
		"forgotten paused":   AskLetter{For: ForgottenPassword, Form: form, SignInURL: fill("sign in"), Email: fill("email"), Notice: TooManyLetters, RetryAfter: time.Hour},
		"forgotten sent":     AskLetter{For: ForgottenPassword, Form: form, SignInURL: fill("sign in"), Sent: true},
		"signin forgotten":   SignIn{Form: form, SignInWays: SignInWays{ForgottenURL: fill("forgotten")}},
		"signin sign_up":     SignIn{Form: form, SignInWays: SignInWays{SignUpURL: fill("sign up")}},
		"sign_up":            AskLetter{For: NewAccount, Form: form, SignInURL: fill("sign in")},
		"sign_up foreign":    AskLetter{For: NewAccount, Form: form, SignInURL: fill("sign in"), Email: fill("email"), Notice: ForeignAddress},
		"sign_up sent":       AskLetter{For: NewAccount, Form: form, SignInURL: fill("sign in"), Sent: true},
		"link registration":  UseLink{Form: form, Purpose: "registration", Name: new(NewName), Password: &Password{Email: fill("email"), MinLength: 12}},
		"link unfit name":    UseLink{Form: form, Purpose: "registration", Name: &NewName{Typed: fill("name"), Wrong: true}, Password: &Password{Email: fill("email"), MinLength: 12}},
		"link reset":         UseLink{Form: form, Purpose: "reset", Password: &Password{Email: fill("email"), MinLength: 12}},
		"link invitation":    UseLink{Form: form, Purpose: "invitation", Password: &Password{Email: fill("email"), MinLength: 12, Fault: PasswordTooShort}},
		"link recovery":      UseLink{Form: form, Purpose: "recovery", Password: &Password{Email: fill("email"), MinLength: 12}, Notice: Busy},
		"account profile": Account{
			Form: form, User: fill("user"), Email: fill("email"), Memberships: Memberships{Groups: []string{fill("group")}}, SignOutURL: fill("sign out"),
			Factors: &Factors{CanAdd: true}, Tokens: &Tokens{SignIn: true},
			Profile: &Profile{Name: fill("user"), GivenName: fill("given name"), FamilyName: fill("family name"), Locale: "de", Email: new(NewEmail), Password: &Password{Email: fill("email"), MinLength: 12}},
		},
		"account profile refused": Account{Form: form, User: fill("user"), Email: fill("email"), Profile: &Profile{
			Name: fill("user"), Wrong: true, Email: &NewEmail{Typed: fill("new email"), Notice: NoAddress, WrongPassword: true}, PasswordNotice: Busy,
			Password: &Password{Email: fill("email"), MinLength: 12, Fault: PasswordWrong},
		}},
		"account profile proved":      Account{Form: form, User: fill("user"), Email: fill("email"), Profile: &Profile{Name: fill("user"), Proves: true, Email: &NewEmail{Notice: TooManyLetters}, RetryAfter: time.Minute, Password: &Password{Email: fill("email"), MinLength: 8, Fault: PasswordsDiffer}}},
		"account profile fixed":       Account{Form: form, User: fill("user"), Email: fill("email"), Profile: &Profile{Fixed: true}},
		"account profile, no mail":    Account{Form: form, User: fill("user"), Email: fill("email"), Profile: &Profile{Password: &Password{Email: fill("email"), MinLength: 12}}},
		"link address":                UseLink{Form: form, Purpose: "address", NewEmail: fill("new email")},
		"link address, not signed in": UseLink{Form: form, Purpose: "address", Notice: OtherAccount, SignInURL: fill("sign in")},
		"account empty":               Account{Form: form, User: fill("user"), Email: fill("email"), SignOutURL: fill("sign out")},
		"formpost": FormPost{
			URI: "https://app.example/cb?x=" + fill("uri"), ClientName: fill("client"), Fields: []Field{{"code", "c"}, {"state", fill("state")}},
		},
		"signout": SignOut{Form: form, Email: fill("email")},
		"signout asked": SignOut{
			Form: form, Email: fill("email"), ClientName: fill("client"), Detail: fill("detail"), Fields: []Field{{"state", fill("state")}},
		},
		"signout return":   SignOut{Done: true, ReturnURL: "https://app.example/out?x=" + fill("uri")},
		"signout done":     SignOut{Done: true, SignInURL: fill("sign in")},
		"host interrupted": AtHost{Code: Interrupted, URL: "/oauth/sign_in?x=" + fill("url"), NewTab: true}, "host signed in": AtHost{Code: SignedIn, URL: "/"},
		"host not signed in": AtHost{Code: NotSignedIn, URL: "/oauth/sign_in?return=" + fill("url")},
		"host not fresh":     AtHost{Code: NotFresh, URL: "/oauth/sign_in?return=" + fill("url")},

		"host foreign": AtHost{Code: Foreign, URL: "/"}, "host elsewhere": AtHost{Code: Elsewhere, URL: "/oauth/sign_in"},
		"host shortened": AtHost{Code: Shortened, URL: "/x?" + fill("url")},
		"front":          Front{AccountURL: fill("account"), SignOutURL: fill("sign out")},

		"console":          consoleSample(fill, since),
		"console search":   consoleSearch(fill),
		"console failed":   consoleFailed(fill),
		"denied":           Denied{User: fill("user"), Email: fill("email"), SwitchURL: "/oauth/sign_in?x=" + fill("url"), SignOutURL: "/oauth/sign_out"},
		"denied nameless":  Denied{User: fill("user"), SwitchURL: "/oauth/sign_in", SignOutURL: "/oauth/sign_out"},
		"problem":          Problem{Code: BadClient, Detail: fill("detail"), AccountURL: fill("account")},
		"problem sign-out": Problem{Code: TwoSessions, SignOutURL: fill("sign out")},
		"problem ends":     Problem{Code: Decided, AccountURL: fill("account")},
	}
}

// consoleSample is a page of the console with every kind of block, and a form that changes something.
func consoleSample(fill func(field string) string, at time.Time) Console {
	url := "/oauth/admin/people/person?id=" + fill("url")
	return Console{
		Title: "console.person.title", About: fill("about"), SignOutURL: fill("sign out"), Operator: Viewer{User: fill("user"), Email: fill("email")},
		Places:  []ConsoleLink{{Phrase: Say("console.place.start"), URL: "/oauth/admin"}, {Phrase: Say("console.place.people"), URL: "/oauth/admin/people", Current: true}},
		Notices: []ConsoleNotice{{Phrase: Say("console.done")}, {Phrase: Say("console.form.now", "value", fill("value")), Link: &ConsoleLink{Phrase: Say("console.form.sign_in"), URL: url, NewTab: true}}},
		Blocks: []Block{
			{Words: []Phrase{Say("console.role.words"), Say("console.link.mailed", "address", fill("address"))}, Facts: []Fact{
				{Name: Say("console.member.id"), Cells: []Cell{{Text: fill("code"), Code: true}, {Text: fill("text"), URL: url}, {Phrase: Say("console.none"), Tone: "quiet"}}},
				{Name: Say("console.person.account_at", "provider", fill("provider")), Cells: []Cell{{At: at}, {Phrase: Phrase{Text: fill("own words")}, Tone: "bad"}}},
			}},
			{Title: Say("console.people.found"), Chart: &Chart{Title: Say("console.people.found"), Upper: Say("console.state.active"), Lower: Say("console.state.locked"), Bars: []Bar{{at, 3, 1}, {at.Add(time.Hour), 0, 7}}}, Table: &Table{
				Head: []Phrase{Say("console.member.name"), Say("console.person.account_at", "provider", fill("provider"))}, NextURL: url,
				Rows: []Row{{Cells: [][]Cell{{{Text: fill("name"), URL: url}}, {{At: at}, {Text: fill("text")}}}}, {Cells: [][]Cell{{{Text: fill("other")}}, nil}}},
			}},
			{Form: &ConsoleForm{Action: fill("action"), Submit: Say("console.save"), Fields: consoleFields(fill)}},
			{Copied: []Copied{{Name: Say("console.link.link"), Text: fill("copied")}}, Links: []ConsoleLink{
				{Phrase: Say("console.person.edit"), URL: url}, {Phrase: Say("console.do.remove"), URL: url, Danger: true},
			}},
		},
	}
}

// consoleFields has a field of every kind.
func consoleFields(fill func(field string) string) []ConsoleField {
	return []ConsoleField{
		{Name: "title", Kind: "text", Value: fill("title"), Label: Say("console.member.name"), Required: true, Fault: Phrase{Text: fill("fault")}, Now: Say("console.form.now", "value", fill("value"))},
		{Name: "groups", Kind: "lines", Value: fill("lines"), Label: Say("console.member.groups"), Help: Say("console.member.groups.help")},
		{Name: "password", Kind: "password", Label: Phrase{Text: fill("label")}, Hint: "new-password"},
		{Name: "role", Kind: "choice", Label: Say("console.member.role"), Choices: []Choice{{Phrase: Say("console.none")}, {Value: fill("role"), Phrase: Phrase{Text: fill("role")}, Chosen: true}}},
		{Name: "verified", Kind: "check", Value: "yes", Checked: true, Label: Say("console.member.email_verified")},
		{Name: "version", Kind: "hidden", Value: fill("version")},
	}
}

// consoleSearch is a page of the console with a search that finds nothing.
func consoleSearch(fill func(field string) string) Console {
	return Console{Title: "console.place.people", Operator: Viewer{User: fill("email"), Email: fill("email")}, Blocks: []Block{
		{Form: &ConsoleForm{Get: true, Action: "/oauth/admin/people", Submit: Say("console.search"), Fields: consoleFields(fill)[:1]}},
		{Title: Say("console.people.found"), Table: &Table{Head: []Phrase{Say("console.member.name")}, Empty: Say("console.people.none")}},
	}}
}

// consoleFailed is a page of the console that changes nothing.
func consoleFailed(fill func(field string) string) Console {
	return Console{Title: "console.refused.title", Operator: Viewer{User: fill("user")}, Notices: []ConsoleNotice{{Phrase: Phrase{Text: fill("refusal")}, Failed: true}}}
}

// newToken returns the form for a token, with every unit of a lifetime.
func newToken(name string, scopes []Scope) *NewToken {
	n := &NewToken{Name: name, MaxName: 100, Scopes: append([]Scope{{Name: "trusted", Ticked: true}}, scopes...)}
	for _, d := range []time.Duration{time.Minute, 90 * time.Minute, time.Hour, 36 * time.Hour, 24 * time.Hour, 30 * 24 * time.Hour} {
		n.Lifetimes = append(n.Lifetimes, Lifetime{Duration: d, Chosen: d == time.Hour})
	}
	return n
}

// states returns the samples and every other state of a page.
func states(fill func(field string) string) map[string]Page {
	all := samples(fill)
	form := Form{Action: fill("action"), Token: fill("token"), Pending: fill("pending")}
	for _, role := range []string{"admin", "group_manager", "business_manager", "member"} {
		all["account "+role] = Account{Form: form, User: fill("user"), Email: fill("email"), Memberships: Memberships{Role: role}}
	}
	for _, d := range []Done{ApplicationRemoved, SessionEnded, IdentityUnlinked, TokenEnded, ProfileSaved, PasswordChanged, AddressAsked, AddressChanged} {
		all["account done "+string(d)] = Account{Form: form, Done: d, User: fill("user"), Email: fill("email")}
	}
	all["account tokens refused"] = Account{Form: form, User: fill("user"), Email: fill("email"), Tokens: &Tokens{Fault: "name", New: newToken(fill("token name"), []Scope{{Name: "public"}})}}
	all["account tokens sign-in"] = Account{Form: form, User: fill("user"), Email: fill("email"), Tokens: &Tokens{SignIn: true}}
	for _, f := range []string{"name", "scopes", "scope", "lifetime", "too_many", "owner", "used"} {
		all["account token fault "+f] = Account{Form: form, User: fill("user"), Email: fill("email"), Tokens: &Tokens{Fault: f}}
	}
	for _, f := range []PasswordFault{PasswordTooShort, PasswordTooLong, PasswordTooCommon, PasswordIsAddress, PasswordsDiffer} {
		all["link fault "+string(f)] = UseLink{Form: form, Purpose: "reset", Password: &Password{Email: fill("email"), MinLength: 8, Fault: f}}
	}
	for _, n := range notices {
		all["signin "+string(n)] = SignIn{Form: form, Notice: n, RetryAfter: 2 * time.Minute, Email: fill("email"), AtProvider: fill("title")}
	}
	for _, c := range problemCodes {
		all["problem "+string(c)] = Problem{Code: c, Detail: fill("detail"), AccountURL: fill("account")}
	}
	return all
}

var notices = []Notice{WrongCredentials, TooManyAttempts, Busy, SignInAgain, FormReplaced, ProviderUnavailable, ProviderCancelled, ProviderRefused, ProviderFailed, ProviderMisconfigured, ProviderNotFresh, WrongPasskey, UnknownPasskey, ExpiredPasskey, PasskeyNotAlone}

var problemCodes = []ProblemCode{
	BadClient, BadRequest, AmbiguousPath, TwoSessions, Expired, Forged, Decided, NotFound, NotAllowed, Throttled, Unavailable, Internal, LinkBroken, LinkExpired, LinkSpent, AddressTaken, RegistrationClosed,
}

// harmless fills fields with words.
func harmless(field string) string { return "Some " + strings.ReplaceAll(field, " ", "-") }

func open(t testing.TB, s Settings) *Pages {
	t.Helper()
	p, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func render(t testing.TB, p *Pages, lang words.Language, page Page) string {
	t.Helper()
	out, err := p.Render(lang, page)
	if err != nil {
		t.Fatalf("%#v: %v", page, err)
	}
	return string(out)
}
