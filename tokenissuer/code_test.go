package tokenissuer_test

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func TestT47ACodeGivesTokens(t *testing.T) {
	f := newFlow(t)
	code := f.code("conf", parameters("trusted public"))
	f.wait(10 * time.Second)
	tokens, err := f.redeem("conf", code)
	f.must(err)
	f.alive(tokens)
	sameScopes(t, tokens.Scopes, oauth.ScopeTrusted, oauth.ScopePublic)
	got := tokens.Claims
	if tokens.ExpiresIn != 6*time.Hour || !tokens.CreatedAt.Equal(f.clock()) || !got.IssuedAt.Equal(f.clock()) || !got.ExpiresAt.Equal(f.clock().Add(6*time.Hour)) {
		t.Errorf("times %+v", tokens)
	}
	if got.Subject != "u-ada" || got.ClientID != "conf" || got.Organisation != "acme" || got.Role != "admin" || got.FamilyID == "" || !got.AuthTime.Equal(tokentest.Start) || !got.Actor.IsZero() {
		t.Errorf("claims %+v", got)
	}
	if tokens.RefreshToken.IsEmpty() || tokens.Repeated {
		t.Errorf("tokens %+v", tokens)
	}
}

func TestT48ACodeLivesForAMinute(t *testing.T) {
	for age, works := range map[time.Duration]bool{59 * time.Second: true, time.Minute: true, 61 * time.Second: false, 24 * time.Hour: false} {
		f := newFlow(t)
		code := f.code("conf", parameters(""))
		f.wait(age)
		_, err := f.redeem("conf", code)
		if works {
			f.must(err)
			continue
		}
		wantReason(t, err, oauth.InvalidGrant, "code_expired")
	}
}

// TestT49ASecondRedemptionEndsTheFamily, whatever else the request says: what the first one gave may be with a thief.
func TestT49ASecondRedemptionEndsTheFamily(t *testing.T) {
	for name, edit := range map[string]func(*TokenRequest){
		"the same":             func(*TokenRequest) {},
		"wrong verifier":       func(r *TokenRequest) { r.CodeVerifier = oauth.NewSecret(strings.Repeat("x", 43)) },
		"no verifier":          func(r *TokenRequest) { r.CodeVerifier = oauth.Secret{} },
		"another redirect URI": func(r *TokenRequest) { r.RedirectURI = "https://evil.example/" },
	} {
		for _, later := range []time.Duration{0, time.Second, 30 * time.Second, 24 * time.Hour} {
			t.Run(name+" after "+later.String(), func(t *testing.T) {
				f := newFlow(t)
				code := f.code("conf", parameters("refresh_token"))
				tokens, err := f.redeem("conf", code)
				f.must(err)
				f.wait(later)
				r := f.redemption("conf", code)
				edit(&r)
				_, err = f.exchange(r)
				wantReason(t, err, oauth.InvalidGrant, oauth.ReasonCodeReplayed)
				f.dead(tokens)
				_, err = f.refresh("conf", tokens.RefreshToken)
				tokentest.WantCode(t, err, oauth.InvalidGrant)
				_, err = f.exchange(r)
				tokentest.WantCode(t, err, oauth.InvalidGrant)
			})
		}
	}
}

func TestT50AUsedCodeOfAnotherClientHarmsNobody(t *testing.T) {
	f := newFlow(t)
	code := f.code("conf", parameters("refresh_token"))
	tokens, err := f.redeem("conf", code)
	f.must(err)
	_, err = f.redeem("other", code)
	wantReason(t, err, oauth.InvalidGrant, "code_of_another_client")
	r := f.redemption("conf", code)
	r.Client.Readings[0].Secret = oauth.NewSecret("wrong")
	_, err = f.exchange(r)
	tokentest.WantCode(t, err, oauth.InvalidClient)
	f.alive(tokens)
	if _, err := f.refresh("conf", tokens.RefreshToken); err != nil {
		t.Error(err)
	}
}

func TestT53ACodeOfAnotherClientIsNotUsedUp(t *testing.T) {
	f := newFlow(t)
	code := f.code("conf", parameters(""))
	for range 10 { // and is no attempt at the verifier either
		_, err := f.redeem("other", code)
		wantReason(t, err, oauth.InvalidGrant, "code_of_another_client")
	}
	_, err := f.redeem("conf", code)
	f.must(err)
}

func TestT54TheRedirectURIOfTheExchange(t *testing.T) {
	second := "https://client.example/second"
	bare := AuthorizationParameters{ResponseType: "code"}
	for _, v := range []struct {
		name string
		uri  string
	}{
		{"trailing slash", callback + "/"}, {"case", "https://CLIENT.example/cb?x=1"}, {"port", "https://client.example:443/cb?x=1"},
		{"extra query", callback + "&y=2"}, {"encoded", "https://client.example/%63b?x=1"}, {"fragment", callback + "#f"}, {"another registered one", second},
	} {
		for _, p := range []AuthorizationParameters{bare, parameters("")} {
			f := newFlow(t)
			f.addClient(&store.Client{ID: "two", Grants: []oauth.GrantType{oauth.AuthorizationCode}, RedirectURIs: []string{callback, second}})
			r := f.redemption("two", f.code("two", p))
			if p.CodeChallenge == "" {
				r.CodeVerifier = oauth.Secret{}
			}
			right := r
			r.RedirectURI = v.uri
			_, err := f.exchange(r)
			wantReason(t, err, oauth.InvalidGrant, "redirect_uri_wrong")
			if _, err := f.exchange(right); err != nil {
				t.Errorf("%s: the code was used up: %v", v.name, err)
			}
		}
	}
	f := newFlow(t)
	r := f.redemption("conf", f.code("conf", bare))
	r.RedirectURI, r.CodeVerifier = "", oauth.Secret{}
	_, err := f.exchange(r)
	tokentest.WantCode(t, err, oauth.InvalidRequest)
	if oauth.AsError(err).Description != "Missing required parameter: redirect_uri." {
		t.Error(oauth.AsError(err).Description)
	}
	r = f.redemption("conf", f.code("conf", parameters("")))
	r.RedirectURI = ""
	_, err = f.exchange(r)
	f.must(err)
}

func TestT55AWrongVerifierRedeemsNothing(t *testing.T) {
	for name, v := range map[string]struct {
		verifier string
		code     oauth.ErrorCode
	}{
		"absent": {"", oauth.InvalidRequest}, "42 characters": {verifier[:42], oauth.InvalidGrant}, "129 characters": {strings.Repeat("a", 129), oauth.InvalidGrant},
		"another alphabet": {verifier[:42] + "+", oauth.InvalidGrant}, "wrong": {strings.Repeat("a", 43), oauth.InvalidGrant}, "the challenge itself": {challenge, oauth.InvalidGrant},
		"first byte": {"e" + verifier[1:], oauth.InvalidGrant}, "last byte": {verifier[:42] + "l", oauth.InvalidGrant}, "longer": {verifier + "a", oauth.InvalidGrant}, "not ASCII": {verifier[:41] + "é", oauth.InvalidGrant},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			r := f.redemption("conf", f.code("conf", parameters("")))
			right := r
			r.CodeVerifier = oauth.NewSecret(v.verifier)
			_, err := f.exchange(r)
			tokentest.WantCode(t, err, v.code)
			_, err = f.exchange(right)
			f.must(err)
		})
	}
}

func TestT56AVerifierThatNobodyAskedFor(t *testing.T) {
	f := newFlow(t)
	code := f.code("legacy", AuthorizationParameters{ResponseType: "code"})
	_, err := f.redeem("legacy", code)
	wantReason(t, err, oauth.InvalidGrant, "code_verifier_unasked")
}

func TestT57ALegacyClientNeedsNoChallenge(t *testing.T) {
	f := newFlow(t)
	r := f.redemption("legacy", f.code("legacy", AuthorizationParameters{ResponseType: "code"}))
	r.CodeVerifier = oauth.Secret{}
	_, err := f.exchange(r)
	f.must(err)
}

// TestT122PKCEWhereTheOperatorRequiresIt: of one client, or of all.
func TestT122PKCEWhereTheOperatorRequiresIt(t *testing.T) {
	f := newFlow(t)
	f.addClient(&store.Client{ID: "strict", Grants: []oauth.GrantType{oauth.AuthorizationCode}, Scopes: oauth.Scopes{oauth.ScopePublic}, PKCERequired: true})
	ask := func(id string, p AuthorizationParameters) error {
		client, target, err := f.ResolveRedirect(t.Context(), id, f.redirectURI)
		f.must(err)
		_, err = f.ReadAuthorization(client, target, p)
		return err
	}
	bare := AuthorizationParameters{ResponseType: "code"}
	wantReason(t, ask("strict", bare), oauth.InvalidRequest, "code_challenge_missing")
	f.must(ask("strict", parameters("public")))
	f.must(ask("legacy", bare))
	f.PKCERequired = true
	wantReason(t, ask("legacy", bare), oauth.InvalidRequest, "code_challenge_missing")
	f.must(ask("legacy", parameters("public")))
}

func TestT60TheScopeOfTheExchangeIsIgnored(t *testing.T) {
	f := newFlow(t)
	for _, scope := range []string{"trusted", "nonsense", "public refresh_token", "a\tb"} {
		r := f.redemption("conf", f.code("conf", parameters("public")))
		r.Scope = scope
		tokens, err := f.exchange(r)
		f.must(err)
		sameScopes(t, tokens.Scopes, oauth.ScopePublic)
	}
}

func TestT62TheClientOrTheConsentIsGone(t *testing.T) {
	t.Run("client disabled", func(t *testing.T) {
		f := newFlow(t)
		code := f.code("conf", parameters(""))
		f.must(f.registry.DisableClient(t.Context(), "conf"))
		_, err := f.redeem("conf", code)
		tokentest.WantCode(t, err, oauth.InvalidClient)
		// Nor does it come back to life with the client.
		f.must(f.registry.EnableClient(t.Context(), "conf"))
		_, err = f.redeem("conf", code)
		tokentest.WantCode(t, err, oauth.InvalidGrant)
	})
	t.Run("client removed", func(t *testing.T) {
		f := newFlow(t)
		code := f.code("conf", parameters(""))
		f.must(f.registry.RemoveClient(t.Context(), "conf"))
		_, err := f.redeem("conf", code)
		tokentest.WantCode(t, err, oauth.InvalidClient)
	})
	t.Run("consent withdrawn", func(t *testing.T) {
		f := newFlow(t)
		code := f.code("conf", parameters(""))
		f.must(f.RevokeApplication(t.Context(), f.user("ada"), "conf"))
		_, err := f.redeem("conf", code)
		tokentest.WantCode(t, err, oauth.InvalidGrant)
	})
	t.Run("signed out", func(t *testing.T) {
		f := newFlow(t)
		code := f.code("conf", parameters(""))
		f.must(f.SignOut(t.Context(), f.session("ada")))
		_, err := f.redeem("conf", code)
		tokentest.WantCode(t, err, oauth.InvalidGrant)
	})
}

func TestT63OnlyTheCodeItselfIsOne(t *testing.T) {
	f := newFlow(t)
	code := f.code("conf", parameters("")).Reveal()
	swap := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return r
	}, code)
	other := f.code("conf", parameters("")).Reveal()
	for name, wrong := range map[string]string{
		"one less": code[:len(code)-1], "without the first": code[1:], "one more": code + "0", "other case": swap, "padded": code + "=", "with a space": " " + code,
		"id alone": code[:22], "MAC of another": code[:22] + other[22:], "zeros": strings.Repeat("0", len(code)), "NUL": code[:64] + "\x00", "long": strings.Repeat("a", 1<<20),
	} {
		_, err := f.redeem("conf", oauth.NewSecret(wrong))
		if oauth.AsError(err).Code != oauth.InvalidGrant {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range len(code) { // one character changed, everywhere
		wrong := []byte(code)
		if wrong[i]++; wrong[i] == '{' || wrong[i] == ':' || wrong[i] == '[' {
			wrong[i] = '0'
		}
		if string(wrong) == code {
			continue
		}
		if _, err := f.redeem("conf", oauth.NewSecret(string(wrong))); oauth.AsError(err).Code != oauth.InvalidGrant {
			t.Errorf("character %d: %v", i, err)
		}
	}
	_, err := f.redeem("conf", oauth.NewSecret(code))
	f.must(err)
	if bits := new(big.Int).Exp(big.NewInt(62), big.NewInt(22), nil).BitLen(); bits < 128 {
		t.Errorf("a family's id has %d bits", bits)
	}
}

func TestT65OtherCredentialsAreNoCodes(t *testing.T) {
	f := newFlow(t)
	tokens := f.tokens("conf", "refresh_token")
	_, cookie, err := f.OpenSession(t.Context(), f.user("ada"), "", "")
	f.must(err)
	browser := NewBrowser()
	r, err := f.read("conf", parameters(""))
	f.must(err)
	pending, err := f.SealRequest(&r, browser)
	f.must(err)
	for name, wrong := range map[string]oauth.Secret{
		"access token": tokens.AccessToken, "refresh token": tokens.RefreshToken, "session": cookie, "sealed request": pending,
		"form token": f.FormToken(browser, "x"), "state": oauth.NewSecret("a state"), "browser": browser, "family": oauth.NewSecret(tokens.Claims.FamilyID),
		"session MAC of a code's length": oauth.NewSecret(cookie.Reveal()),
	} {
		if _, err := f.redeem("conf", wrong); oauth.AsError(err).Code != oauth.InvalidGrant {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = f.redeem("conf", oauth.Secret{})
	tokentest.WantCode(t, err, oauth.InvalidRequest)
	f.alive(tokens)
}

func TestT103WrongVerifiersAreCounted(t *testing.T) {
	for wrong, works := range map[int]bool{4: true, 5: false, 6: false} {
		f := newFlow(t)
		code := f.code("conf", parameters(""))
		for range wrong {
			r := f.redemption("conf", code)
			r.CodeVerifier = oauth.NewSecret(strings.Repeat("a", 43))
			_, err := f.exchange(r)
			wantReason(t, err, oauth.InvalidGrant, "code_verifier_wrong")
		}
		if _, err := f.redeem("conf", code); (err == nil) != works {
			t.Errorf("after %d wrong verifiers: %v", wrong, err)
		}
	}
	// The count also holds for guesses that run beside each other.
	f := newFlow(t)
	code := f.code("conf", parameters(""))
	errs := tokentest.Together(16, func(int) error {
		r := f.redemption("conf", code)
		r.CodeVerifier = oauth.NewSecret(strings.Repeat("a", 43))
		_, err := f.exchange(r)
		return err
	})
	if n := wins(t, errs, oauth.InvalidGrant); n != 0 {
		t.Errorf("%d guesses were right", n)
	}
	_, err := f.redeem("conf", code)
	tokentest.WantCode(t, err, oauth.InvalidGrant)
}
