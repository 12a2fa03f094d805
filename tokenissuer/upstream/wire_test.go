package upstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func says(mediaType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		_, _ = w.Write([]byte(body))
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }
}

// endless writes until the reader closes.
func endless(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"x":"`))
	for piece := bytes.Repeat([]byte("a"), 64<<10); ; {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// gzipped is 100 MiB in 100 KiB.
func gzipped(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	defer func() { _ = z.Close() }()
	for range 1600 {
		if _, err := z.Write(make([]byte, 64<<10)); err != nil {
			return
		}
	}
}

// slow responds after the client has disconnected, which the server notices once it has read the body.
func slow(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// TestP10TokenEndpoint: a token endpoint that is endless, a gzip bomb, malformed, redirecting, cut off → refused in bounded memory and
// time; no redirect is followed with a code.
func TestP10TokenEndpoint(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		reason string
	}{
		"endless":         {endless, ErrUnavailable.Reason},
		"HTML":            {says("text/html", "<html>502</html>"), ErrUnavailable.Reason},
		"no access token": {says("application/json", `{"id_token":"e30.e30.e30"}`), ErrUnavailable.Reason},
		"a list":          {says("application/json", `[]`), ErrUnavailable.Reason},
		"502":             {status(http.StatusBadGateway), ErrUnavailable.Reason},
		"404":             {status(http.StatusNotFound), ErrMisconfigured.Reason},
		"a redirect":      {redirect("/elsewhere"), ErrMisconfigured.Reason},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			provider := p.provider(nil)
			p.answer("/token", c.answer)
			before := allocated()
			_, err := p.signIn(provider)
			wantReason(t, err, c.reason)
			if used := allocated() - before; used > 64<<20 {
				t.Errorf("%d MiB were used", used>>20)
			}
			if p.count("/elsewhere") != 0 {
				t.Error("the code was taken elsewhere")
			}
			if s := provider.State(); s.DownSince.IsZero() || s.LastError == "" {
				t.Errorf("the state is %+v", s)
			}
		})
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestP10Slow: any endpoint that is slow → refused after 5 s, 10 s for the whole sign-in.
func TestP10Slow(t *testing.T) {
	for _, path := range []string{metadataPath, "/keys", "/token", "/userinfo"} {
		t.Run(strings.Trim(path, "/."), func(t *testing.T) {
			t.Parallel()
			p := newIDP(t)
			p.answer(path, slow)
			provider := p.provider(func(s *Settings) { s.GroupsClaim = "groups" })
			start := time.Now()
			location, flow, err := provider.Begin(t.Context(), Request{RedirectURI: redirectURI, State: "state"})
			if err == nil {
				p.follow(location)
				_, err = provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
			}
			wantReason(t, err, ErrUnavailable.Reason)
			if took := time.Since(start); took < 4*time.Second || took > 9*time.Second {
				t.Errorf("it took %s", took)
			}
			p.CloseClientConnections()
		})
	}
}

// TestP22ManyWaiting: 65 sign-ins at a slow provider → one is refused at once.
func TestP22ManyWaiting(t *testing.T) {
	p := newIDP(t)
	provider := p.provider(nil)
	flow, _ := p.begin(provider, Request{})
	p.answer("/token", slow)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, maxAtOnce)
	for range maxAtOnce {
		go func() {
			_, err := provider.Finish(ctx, flow, goodAnswer(), redirectURI)
			done <- err
		}()
	}
	tokentest.Eventually(t, "all wait", func() bool { return p.count("/token") == maxAtOnce })
	_, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
	wantReason(t, err, ErrUnavailable.Reason)
	if ended, asked := len(done), p.count("/token"); ended != 0 || asked != maxAtOnce {
		t.Errorf("refused after %d of the others had ended and the provider was asked %d times", ended, asked)
	}
	cancel()
	for range maxAtOnce {
		if err := <-done; err == nil {
			t.Error("a sign-in went well whose client had gone away")
		}
	}
	if s := provider.State(); !s.DownSince.IsZero() {
		t.Errorf("clients that went away are held against the provider: %+v", s)
	}
	p.answer("/token", nil)
	if _, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI); err != nil {
		t.Error(err)
	}
}

// TestP11PrivateAddresses: a provider at a private address, by name, in IPv6 → not dialled; a cloud's metadata service → never.
func TestP11PrivateAddresses(t *testing.T) {
	t.Run("a name of loopback", func(t *testing.T) {
		p := newIDP(t)
		port := p.URL[strings.LastIndexByte(p.URL, ':'):]
		for _, issuer := range []string{"https://localhost" + port, "https://127.0.0.1" + port, "https://[::ffff:127.0.0.1]" + port} {
			provider := p.provider(func(s *Settings) { s.Issuer, s.AllowPrivateNetwork = issuer, false })
			_, _, err := provider.Begin(t.Context(), Request{})
			wantReason(t, err, ErrUnavailable.Reason)
			if !strings.Contains(err.Error(), "address refused") {
				t.Errorf("%s: got %v", issuer, err)
			}
		}
		if p.count(metadataPath) != 0 {
			t.Error("it was asked")
		}
	})
	t.Run("a cloud's metadata is no provider's endpoint", func(t *testing.T) {
		p := newIDP(t)
		p.metadata["token_endpoint"] = "https://169.254.169.254/token"
		_, err := p.signIn(p.provider(nil))
		wantReason(t, err, ErrUnavailable.Reason)
		if !strings.Contains(err.Error(), "a cloud's metadata") {
			t.Errorf("got %v", err)
		}
	})
	for name, c := range map[string][2]string{
		"token endpoint without TLS":    {"token_endpoint", "http://example.com/token"},
		"userinfo endpoint without TLS": {"userinfo_endpoint", "http://example.com/userinfo"},
		"keys without TLS":              {"jwks_uri", "http://example.com/keys"},
	} {
		t.Run(name, func(t *testing.T) { // plain http is for loopback alone
			p := newIDP(t)
			p.metadata[c[0]] = c[1]
			provider := p.provider(func(s *Settings) { s.GroupsClaim = "groups" })
			location, flow, err := provider.Begin(t.Context(), Request{RedirectURI: redirectURI, State: "state"})
			if err == nil {
				p.follow(location)
				_, err = provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
			}
			wantReason(t, err, ErrUnavailable.Reason)
		})
	}
}

// TestP10Metadata: metadata with endpoints missing, without https, with credentials or a fragment → not used.
func TestP10Metadata(t *testing.T) {
	for name, c := range map[string]struct {
		edit map[string]any
		want string
	}{
		"another issuer":                  {map[string]any{"issuer": "https://evil.example"}, "not of"},
		"no authorization endpoint":       {map[string]any{"authorization_endpoint": nil}, "authorization_endpoint: the metadata has none"},
		"an endpoint that is no URL":      {map[string]any{"token_endpoint": "::"}, "token_endpoint"},
		"an endpoint with a script":       {map[string]any{"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint"},
		"an endpoint with credentials":    {map[string]any{"token_endpoint": "https://a:b@example.com/"}, "token_endpoint"},
		"an endpoint with a fragment":     {map[string]any{"authorization_endpoint": "https://example.com/#a"}, "fragment"},
		"a sign-out that is no URL":       {map[string]any{"end_session_endpoint": "data:,a"}, "end_session_endpoint"},
		"private_key_jwt alone":           {map[string]any{"token_endpoint_auth_methods_supported": []string{"private_key_jwt"}}, "client_secret_basic or client_secret_post is needed"},
		"no keys":                         {map[string]any{"jwks_uri": nil}, "no jwks_uri"},
		"endpoints of the wrong kind":     {map[string]any{"token_endpoint": 7}, "malformed"},
		"RFC 9207 support that is a text": {map[string]any{"authorization_response_iss_parameter_supported": "true"}, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			p.metadata = c.edit
			provider := p.provider(nil)
			_, _, err := provider.Begin(t.Context(), Request{})
			wantReason(t, err, ErrUnavailable.Reason)
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if s := provider.State(); s.DownSince.IsZero() || !strings.Contains(s.LastError, c.want) {
				t.Errorf("the state is %+v", s)
			}
		})
	}
}

func TestClientAuthentication(t *testing.T) {
	for name, c := range map[string]struct {
		methods any
		secret  string
		basic   bool
		body    string
	}{
		"no metadata: basic": {nil, ourSecret, true, ""},
		"both: basic":        {[]string{"client_secret_post", "client_secret_basic"}, ourSecret, true, ""},
		"post":               {[]string{"client_secret_post", "none"}, ourSecret, false, ourSecret},
		"public":             {[]string{"client_secret_basic"}, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			p.metadata["token_endpoint_auth_methods_supported"] = c.methods
			if _, err := p.signIn(p.provider(func(s *Settings) { s.Client.Secret = oauth.NewSecret(c.secret) })); err != nil {
				t.Fatal(err)
			}
			if (p.basic[0] != "") != c.basic || p.token.Get("client_secret") != c.body || !c.basic && p.token.Get("client_id") != ourID {
				t.Errorf("the token endpoint got %v, %v", p.basic, p.token)
			}
		})
	}
}

// TestP15ErrorsOfTheProvider: access_denied, login_required, unknown or endless errors → each its own outcome with a sentence; one sent
// through the browser does not make the provider look down.
func TestP15ErrorsOfTheProvider(t *testing.T) {
	for code, reason := range map[string]string{
		"access_denied": ErrDenied.Reason, "login_required": ErrInteraction.Reason, "interaction_required": ErrInteraction.Reason,
		"consent_required": ErrInteraction.Reason, "account_selection_required": ErrInteraction.Reason,
		"temporarily_unavailable": ErrUnavailable.Reason, "server_error": ErrUnavailable.Reason,
		"invalid_request": ErrMisconfigured.Reason, "unauthorized_client": ErrMisconfigured.Reason, "invalid_scope": ErrMisconfigured.Reason,
		"<script>": ErrMisconfigured.Reason, strings.Repeat("a", 5000): ErrMisconfigured.Reason,
	} {
		p := newIDP(t)
		provider := p.provider(nil)
		flow, _ := p.begin(provider, Request{})
		_, err := provider.Finish(t.Context(), flow, Answer{State: "state", Error: code}, redirectURI)
		wantReason(t, err, reason)
		if len(err.Error()) > 500 {
			t.Errorf("%d bytes", len(err.Error()))
		}
		if p.count("/token") != 0 || !provider.State().DownSince.IsZero() {
			t.Errorf("%s: anybody can send that: %+v", code, provider.State())
		}
	}
	for answer, c := range map[string]struct {
		status int
		reason string
		down   bool
	}{
		`{"error":"invalid_grant"}`:           {400, ErrExpired.Reason, false},
		`{"error":"invalid_request"}`:         {400, ErrExpired.Reason, false},
		`{"error":"invalid_client"}`:          {401, ErrMisconfigured.Reason, true},
		`{"error":"unauthorized_client"}`:     {400, ErrMisconfigured.Reason, true},
		`{"error":"temporarily_unavailable"}`: {400, ErrUnavailable.Reason, true},
		`{"error":"invalid_grant","x":1}`:     {200, ErrExpired.Reason, false},
		`{"error":7}`:                         {400, ErrMisconfigured.Reason, true},
		`{}`:                                  {503, ErrUnavailable.Reason, true},
	} {
		p := newIDP(t)
		provider := p.provider(nil)
		p.answer("/token", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(answer))
		})
		_, err := p.signIn(provider)
		wantReason(t, err, c.reason)
		if down := !provider.State().DownSince.IsZero(); down != c.down {
			t.Errorf("%s: down is %t", answer, down)
		}
	}
}

// TestP14Secrets: a provider that quotes our code, verifier and secret in an error → none of it in error, state or log.
func TestP14Secrets(t *testing.T) {
	for filler := 180; filler <= 240; filler += 4 { // the text is truncated at each position of the last secret
		quotesSecrets(t, filler)
	}
}

// TestP171SecretsInTheNameOfAnError: a provider that quotes our request in `error` itself → none of it either.
func TestP171SecretsInTheNameOfAnError(t *testing.T) {
	for filler := range 64 {
		p := newIDP(t)
		provider := p.provider(nil)
		p.answer("/token", func(w http.ResponseWriter, r *http.Request) {
			_, secret, _ := r.BasicAuth()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			p.write(w, map[string]any{"error": strings.Repeat(".", filler) + secret})
		})
		_, err := p.signIn(provider)
		wantReason(t, err, ErrMisconfigured.Reason)
		for _, text := range []string{err.Error(), provider.State().LastError} {
			wantNoSecret(t, text)
			if half := ourSecret[:len(ourSecret)/2]; strings.Contains(text, half) || strings.Contains(text, url.QueryEscape(half)) {
				t.Errorf("%d: %q has half a secret", filler, text)
			}
		}
	}
}

// quotesSecrets makes a provider quote the request in its error, with a filler of that length before the last secret.
func quotesSecrets(t *testing.T, filler int) {
	t.Helper()
	p := newIDP(t)
	provider := p.provider(nil)
	p.answer("/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		id, secret, _ := r.BasicAuth()
		w.Header().Set("Content-Type", "application/json") // otherwise it would be parsed as a form, without a description
		w.WriteHeader(http.StatusUnauthorized)
		p.write(w, map[string]any{"error": "invalid_client", "error_description": strings.Join(
			[]string{id, secret, r.Header.Get("Authorization"), r.PostForm.Get("code"), r.PostForm.Get("code_verifier"), strings.Repeat(".", filler), secret}, " ")})
	})
	flow, _ := p.begin(provider, Request{})
	_, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
	wantReason(t, err, ErrMisconfigured.Reason)
	for _, text := range []string{err.Error(), provider.State().LastError} {
		wantNoSecret(t, text)
		if !strings.Contains(text, "[secret]") {
			t.Errorf("%q quotes nothing: the test shows nothing", text)
		}
		if half := ourSecret[:len(ourSecret)/2]; strings.Contains(text, half) || strings.Contains(text, url.QueryEscape(half)) {
			t.Errorf("%q has half a secret", text)
		}
		if strings.Contains(text, flow.Verifier.Reveal()) || strings.Contains(text, "Basic ") && !strings.Contains(text, "Basic [secret]") {
			t.Errorf("%q has a secret", text)
		}
	}
}

// TestP16Answers: a callback with parameters twice, code and error, neither, no state → refused.
func TestP16Answers(t *testing.T) {
	for query, want := range map[string]string{
		"state=a&code=b":                                 "",
		"state=a&error=access_denied":                    "",
		"state=a&code=b&session_state=c&x=1&x=2":         "",
		"state=a&state=b&code=c":                         "several state",
		"state=a&code=b&code=c":                          "several code",
		"state=a&code=b&iss=c&iss=c":                     "several iss",
		"state=a&error=b&error=c":                        "several error",
		"state=a&code=b&error=access_denied":             "both",
		"state=a":                                        "neither",
		"state=a&code=":                                  "neither",
		"code=b":                                         "no state",
		"state=&code=b":                                  "no state",
		"state=a&code=" + strings.Repeat("b", 16<<10+1):  "endless code",
		"state=a&error=" + strings.Repeat("b", 16<<10+1): "endless error",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ReadAnswer(values)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", query, err)
			}
			continue
		}
		wantReason(t, err, ErrMalformed.Reason)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%.50s: got %v, want %q", query, err, want)
		}
	}
}

// TestP8IssuerOfTheAnswer: a callback with another provider's `iss`, or without one that was promised → refused before its code reaches a
// token endpoint.
func TestP8IssuerOfTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		promised bool
		issuer   func(p *idp) string
		failed   string
		reason   string
	}{
		"its own":                            {true, func(p *idp) string { return p.URL }, "", ""},
		"its own, not promised":              {false, func(p *idp) string { return p.URL }, "", ""},
		"none":                               {false, func(*idp) string { return "" }, "", ""},
		"none, and it is promised":           {true, func(*idp) string { return "" }, "", ErrUntrusted.Reason},
		"another's":                          {true, func(*idp) string { return "https://evil.example" }, "", ErrUntrusted.Reason},
		"another's, not promised":            {false, func(*idp) string { return "https://evil.example" }, "", ErrUntrusted.Reason},
		"with a slash":                       {false, func(p *idp) string { return p.URL + "/" }, "", ErrUntrusted.Reason},
		"an error of another":                {false, func(*idp) string { return "https://evil.example" }, "access_denied", ErrUntrusted.Reason},
		"an error of none, iss was promised": {true, func(*idp) string { return "" }, "access_denied", ErrUntrusted.Reason},
		"an error of its own":                {true, func(p *idp) string { return p.URL }, "access_denied", ErrDenied.Reason},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			p.metadata["authorization_response_iss_parameter_supported"] = c.promised
			provider := p.provider(nil)
			flow, _ := p.begin(provider, Request{})
			answer := Answer{State: "state", Issuer: c.issuer(p), Error: c.failed}
			if c.failed == "" {
				answer.Code = oauth.NewSecret(goodCode)
			}
			_, err := provider.Finish(t.Context(), flow, answer, redirectURI)
			if c.reason == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantReason(t, err, c.reason)
			if p.count("/token") != 0 {
				t.Error("the code was redeemed")
			}
		})
	}
}

// TestP21CodeTwice: a code used twice, with another verifier, or expired → refused, and the provider does not look down.
func TestP21CodeTwice(t *testing.T) {
	p := newIDP(t)
	provider := p.provider(nil)
	flow, _ := p.begin(provider, Request{})
	p.challenge = "of another sign-in"
	_, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
	wantReason(t, err, ErrExpired.Reason)
	if s := provider.State(); !s.DownSince.IsZero() || s.LastError != "" {
		t.Errorf("the state is %+v", s)
	}
	if e := oauth.AsError(err); e.Code != oauth.InvalidGrant || errors.Unwrap(e) == nil {
		t.Errorf("got %#v", e)
	}
}
