//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// TestF28EachStepOnAnotherOfTheNodes: each step of a flow at another node than the step before → the flow works.
func TestF28EachStepOnAnotherOfTheNodes(t *testing.T) {
	besideOthers(t)
	flows, people := either(48, 10_000), 6
	// Concurrent walks use different people, because signing out ends all families of a person. There are many people, because one person
	// may only create a limited number of tokens.
	const crowd = 25
	setup := Setup{OAuth: "password_grant"}
	for i := range people * crowd {
		setup.OAuth += fmt.Sprintf("\n\t\tuser %s {\nemail %s\npassword %s\norganisation acme\nrole admin\n}", walker(i), Email(walker(i)), passwordHash())
	}
	c := StartCluster(t, 3, setup)
	applications := []string{Portal, Device, Console}
	began, spread := time.Now(), new(times)
	var repeated atomic.Int64
	ctx := Counting(t.Context(), &repeated)
	concurrently(people, func(i int) {
		at := c.Elsewhere()
		for n := range share(flows, people, i) {
			f := &flow{ctx: ctx, application: Application{at, applications[(n+i)%3]}, browser: NewBrowser(walker(i*crowd + n%crowd))}
			if err := f.walk(spread); err != nil {
				t.Errorf("%s with %s: %v", f.browser.User, f.application.ID, err)
				return
			}
		}
	})
	measured(t, "F28: flows with each step on another of 3 nodes", "%d flows, 0 failures, %d requests sent again after a 503, in %v", flows, repeated.Load(),
		time.Since(began).Round(time.Second))
	measured(t, "F28: from the end of a family until the next node refuses", "%v", spread)
}

// walker returns the id of a person who walks through flows.
func walker(i int) string { return fmt.Sprintf("u-walker%d", i) }

// flow is everything that one person does with one application, from the first request to the last.
type flow struct {
	ctx         context.Context
	application Application
	browser     *Browser
	tokens      Tokens
}

// walk does: 1 sign in, allow, redeem; 2 use; 3 refresh and use; 4 introspect; 5 create a token for a member; 6 end the family, and see
// it refused; 7 the same person's other grants; 8 sign out.
func (f *flow) walk(spread *times) error {
	var err error
	if f.tokens, err = obtain(f.ctx, f.browser, f.application); err != nil {
		return err
	}
	before := f.tokens
	steps := []func() error{
		func() error { return f.use(f.tokens.AccessToken) },
		f.refresh, f.tellInfo, f.introspect, f.createToken,
		func() error { return f.use(before.AccessToken) },
		func() error { return f.revoke(spread) },
		f.actForItself, f.provePassword, f.signOut,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (f *flow) use(token string) error {
	return mustBe(f.application.Use(f.ctx, token), http.StatusOK, "", "at the gate")
}

func (f *flow) refresh() error {
	tokens, err := ReadTokens(f.application.Refresh(f.ctx, f.tokens.RefreshToken))
	if err != nil {
		return err
	}
	f.tokens = tokens
	return f.use(tokens.AccessToken)
}

func (f *flow) tellInfo() error {
	answer := Send(f.ctx, http.MethodGet, f.application.URL+"/oauth/token/info", "", "Authorization", "Bearer "+f.tokens.AccessToken)
	return mustBe(answer, http.StatusOK, "", "token info")
}

// introspect introspects both tokens, as a client that can authenticate.
func (f *flow) introspect() error {
	if f.application.ID == Device {
		return nil // it cannot authenticate
	}
	for _, token := range []string{f.tokens.AccessToken, f.tokens.RefreshToken} {
		if active, err := f.isActive(token); err != nil || !active {
			return fmt.Errorf("introspecting a live token: active is %t: %w", active, err)
		}
	}
	return nil
}

func (f *flow) isActive(token string) (bool, error) {
	answer := f.application.post(f.ctx, "/oauth/introspect", url.Values{"token": {token}})
	return answer.Body != "{\"active\":false}", mustBe(answer, http.StatusOK, "", "introspecting")
}

func (f *flow) createToken() error {
	tokens, err := ReadTokens(f.application.CreateToken(f.ctx, f.tokens.AccessToken, Grace))
	if err != nil {
		return fmt.Errorf("the admin operation: %w", err)
	}
	return f.use(tokens.AccessToken)
}

// revoke ends the family. The store refuses its refresh token at once, on every node; the gates follow within a second.
func (f *flow) revoke(spread *times) error {
	if err := mustBe(f.application.Revoke(f.ctx, f.tokens.RefreshToken), http.StatusOK, "", "revoking"); err != nil {
		return err
	}
	began := time.Now()
	err := mustBe(f.application.Refresh(f.ctx, f.tokens.RefreshToken), http.StatusBadRequest, "invalid_grant", "refreshing a dead family")
	if err != nil {
		return err
	}
	if f.application.ID != Device {
		if active, err := f.isActive(f.tokens.RefreshToken); err != nil || active {
			return fmt.Errorf("introspecting a dead token: active is %t: %w", active, err)
		}
	}
	for refusals := 0; refusals < 3; { // one after the other: each node must have refused it
		switch answer := f.application.Use(f.ctx, f.tokens.AccessToken); {
		case answer.Status == http.StatusUnauthorized:
			refusals++
		case answer.Status != http.StatusOK || time.Since(began) > patience:
			return fmt.Errorf("a dead token at the gate: %s", answer)
		default:
			refusals = 0
			time.Sleep(time.Millisecond)
		}
	}
	spread.add(time.Since(began))
	return nil
}

func (f *flow) actForItself() error {
	tokens, err := ReadTokens(Application{f.application.URL, Server}.ForItself(f.ctx))
	if err != nil {
		return err
	}
	return f.use(tokens.AccessToken)
}

func (f *flow) provePassword() error {
	form := url.Values{"grant_type": {"password"}, "email": {Email(f.browser.User)}, "password": {Password}}
	tokens, err := ReadTokens(Send(f.ctx, http.MethodPost, f.application.URL+"/oauth/token", form.Encode(), "Content-Type", formType))
	if err != nil {
		return fmt.Errorf("the password grant: %w", err)
	}
	return f.use(tokens.AccessToken)
}

// signOut signs out by the form of the page, and is signed out at the next node.
func (f *flow) signOut() error {
	account := f.application.URL + "/oauth/account"
	if err := mustBe(f.browser.open(f.ctx, account), http.StatusOK, "", "the account page"); err != nil {
		return err
	}
	at := f.application.URL + "/oauth/logout"
	page := f.browser.open(f.ctx, at)
	answer, err := f.browser.fillIn(f.ctx, at, page)
	if err := errors.Join(err, mustBe(answer, http.StatusSeeOther, "", "signing out")); err != nil {
		return err
	}
	return mustBe(f.browser.open(f.ctx, account), http.StatusSeeOther, "", "the account page after signing out")
}
