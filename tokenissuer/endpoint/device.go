package endpoint

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	deviceAuthorizationPath = "/oauth/device_authorization" // RFC 8628 §3.1
	devicePath              = "/oauth/device"               // RFC 8628 §3.3

	// userCode is the parameter of devicePath with the code that a device shows (RFC 8628 §3.3.1).
	userCode = "user_code"

	deviceEndpoint = "device"
)

// authorizeDevice serves the device authorization endpoint (RFC 8628 §3.1).
func (h *tokenEndpoints) authorizeDevice(w http.ResponseWriter, r *http.Request) error {
	f, err := requests.ParseForm(w, r)
	if err != nil {
		return err
	}
	client, err := h.clients.Authenticate(r.Context(), h.clientAuthentication(r, f))
	if err != nil {
		return err
	}
	d, err := h.authorizations.BeginDevice(r.Context(), client, f.Get("scope"), f.Resources(), h.audit.Address(r))
	if err != nil {
		return forClient(err, client)
	}
	h.audit.Accepted(r, "device authorization begun",
		zap.String("client_id", client.ID), zap.String("device", d.ID), zap.String("scope", d.Scopes.String()))
	page := strings.TrimSuffix(h.clients.URL, "/") + devicePath
	return answers.WriteJSON(w, struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
		Page       string `json:"verification_uri"`
		FilledPage string `json:"verification_uri_complete"`
		ExpiresIn  int64  `json:"expires_in"`
		Interval   int64  `json:"interval"`
	}{
		d.DeviceCode.Reveal(), d.UserCode.Reveal(), page, page + "?" + userCode + "=" + d.UserCode.Reveal(),
		int64(d.ExpiresIn / time.Second), int64(d.Interval / time.Second),
	})
}

// devicePages are the page on which people enter the code of a device. The consent page follows.
type devicePages struct {
	authorizations *issuer.Authorizations
	audit          *Audit
	counters       Counters
	browser        *browser
	authorization  *authorizationPages
}

// serve serves the page and its form. It judges codes only of people who are signed in.
func (h *devicePages) serve(w http.ResponseWriter, r *http.Request) error {
	v, err := h.browser.visitOf(w, r)
	if err != nil {
		return err
	}
	var f requests.Form
	var typed oauth.Secret
	if p, err := readParameters(r.URL.RawQuery); err == nil {
		typed = oauth.NewSecret(p.get(userCode))
	}
	if r.Method == http.MethodPost {
		if f, err = requests.ParseForm(w, r); err != nil {
			return err
		}
		typed = f.Secret(userCode)
	}
	code := issuer.ReadUserCode(typed.Reveal())
	if v.session == nil {
		seeOther(w, h.browser.url(loginPath, afterSignIn(code)))
		return nil
	}
	if r.Method != http.MethodPost {
		return h.show(w, r, http.StatusOK, v, code, pages.NoNotice, 0)
	}
	if _, err := h.browser.checkForm(r, v, f, devicePath); err != nil {
		return err
	}
	request, client, err := h.authorizations.FindDevice(r.Context(), typed, v.session.User.ID, h.audit.Address(r))
	if err != nil {
		return h.refused(w, r, v, code, forClient(err, client))
	}
	return h.authorization.advance(w, r, walk{visit: v, request: &request, client: client})
}

// afterSignIn returns what replaces a sealed request so that the page follows a sign-in.
func afterSignIn(code string) oauth.Secret {
	if code == "" {
		return oauth.NewSecret(toDevice)
	}
	return oauth.NewSecret(toDevice + ":" + code)
}

// show shows the page, with the code filled in if there is one.
func (h *devicePages) show(w http.ResponseWriter, r *http.Request, status int, v visit, code string, notice pages.Notice, wait time.Duration) error {
	user := v.session.User
	page := pages.Device{
		Form: h.browser.form(v, devicePath, oauth.Secret{}), Notice: notice, RetryAfter: wait, User: cmp.Or(user.Name, user.Email), Email: user.Email,
		SwitchURL: h.browser.url(loginPath, afterSignIn(code)) + "&" + switchAccount + "=1",
	}
	if code != "" {
		page.UserCode = issuer.ShowUserCode(code)
	}
	return h.browser.show(w, r, status, "", page, h.authorization.signIn.methods.origins()...)
}

// refused shows the page again with a notice. An error without a notice has a page of its own.
func (h *devicePages) refused(w http.ResponseWriter, r *http.Request, v visit, code string, err error) error {
	e := oauth.AsError(err)
	notice, status := pages.WrongUserCode, http.StatusOK // pages with an error notice are a 200
	switch {
	case errors.Is(err, oauth.ErrDecided):
		return decided
	case e.Code == oauth.RateLimited:
		notice, status = pages.TooManyCodes, answers.SetStatusHeaders(w, err)
	case !errors.Is(e, issuer.ErrUserCodeWrong):
		return err
	}
	h.counters.Refused(deviceEndpoint, e)
	h.audit.Refused(r, "user code refused", err, zap.String("subject", v.session.User.ID))
	return h.show(w, r, status, v, code, notice, e.RetryAfter)
}
