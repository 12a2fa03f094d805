//go:build linux

package rig

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// guessLimit is how many failures an account may have, on all nodes together. The window is longer than any test.
const guessLimit = 10

var limitedSetup = Setup{
	OAuth:  "password_grant",
	Limits: "client off\n\t\t\tlogin 10/30m per account\n\t\t\tlogin 1000/30m per ip",
}

// guess tries a password by the password grant.
func guess(ctx context.Context, n *Node, email, password string) Answer {
	form := url.Values{"grant_type": {"password"}, "email": {email}, "password": {password}}
	return Send(ctx, http.MethodPost, n.URL+"/oauth/token", form.Encode(), "Content-Type", formType)
}

// guessOnThePage tries a password on the sign-in page.
func guessOnThePage(ctx context.Context, n *Node, email, password string) (Answer, error) {
	b, at := NewBrowser(Ben), n.URL+"/oauth/login"
	page := b.open(ctx, at)
	action, fields, err := formIn(page.Body)
	if err != nil {
		return page, err
	}
	fields.Set("email", email)
	fields.Set("password", password)
	return send(ctx, b.jar, http.MethodPost, resolve(at, action), fields.Encode(), []string{
		"Content-Type", formType, "Origin", "null", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate",
	}), nil
}

// TestT72FailuresAreCountedOnAllNodes: failures by password grant and sign-in page, at several nodes, in several spellings of the address → one
// count, then 429.
func TestT72FailuresAreCountedOnAllNodes(t *testing.T) {
	c := StartCluster(t, 3, limitedSetup)
	ctx, email := t.Context(), Email(Ben)
	for _, spelling := range []string{email, strings.ToUpper(email), email + ".", " " + email, strings.Replace(email, "e", "\uff45", 1)} {
		if err := mustBe(guess(ctx, c.Nodes[0], spelling, "wrong"), http.StatusBadRequest, "invalid_grant", spelling); err != nil {
			t.Fatal(err)
		}
		answer, err := guessOnThePage(ctx, c.Nodes[1], spelling, "wrong")
		if answer.Status == http.StatusTooManyRequests || answer.Status == http.StatusSeeOther || err != nil {
			t.Fatalf("%q on the page: %s %v", spelling, answer, err)
		}
	}
	for i, n := range c.Nodes {
		if answer := guess(ctx, n, email, Password); answer.Status != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" {
			t.Errorf("after %d failures, the grant on node %d: %s", guessLimit, i, answer)
		}
		answer, err := guessOnThePage(ctx, n, strings.ToUpper(email), Password)
		if answer.Status != http.StatusTooManyRequests || err != nil {
			t.Errorf("after %d failures, the page of node %d: %s %v", guessLimit, i, answer, err)
		}
	}
	if answer := guess(ctx, c.Nodes[2], Email(Grace), Password); answer.Status != http.StatusOK {
		t.Errorf("somebody else: %s", answer)
	}
}

// TestT21WrongSecretsAreCountedOnAllNodes together.
func TestT21WrongSecretsAreCountedOnAllNodes(t *testing.T) {
	const limit = 6
	c := StartCluster(t, 2, Setup{Limits: "client 6/30m per ip"})
	try := func(node int, secret string) Answer {
		form := url.Values{"grant_type": {"client_credentials"}, "client_id": {Console}, "client_secret": {secret}}
		return Send(t.Context(), http.MethodPost, c.Nodes[node].URL+"/oauth/token", form.Encode(), "Content-Type", formType)
	}
	for i := range limit {
		if err := mustBe(try(i%2, "wrong"), http.StatusUnauthorized, "invalid_client", "a wrong secret"); err != nil {
			t.Fatal(err)
		}
	}
	for node := range c.Nodes {
		if answer := try(node, "wrong"); answer.Status != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" {
			t.Errorf("after %d wrong secrets on both nodes, node %d: %s", limit, node, answer)
		}
	}
}

// TestT73GuessesRacedOnTwoNodes: 200 parallel guesses at two nodes → at most the limit and one per node are judged.
func TestT73GuessesRacedOnTwoNodes(t *testing.T) {
	c := StartCluster(t, 2, limitedSetup)
	ctx, judged := AtOnce(t.Context()), 0
	count := func(answer Answer) error {
		switch answer.Status {
		case http.StatusBadRequest:
			judged++
			return mustBe(answer, http.StatusBadRequest, "invalid_grant", "a guess")
		case http.StatusServiceUnavailable: // no slot for a hash was free: it was not judged
			return nil
		}
		return mustBe(answer, http.StatusTooManyRequests, "temporarily_unavailable", "a guess")
	}
	var wrong error
	for _, answer := range raced(200, func(hand int) Answer { return guess(ctx, c.Nodes[hand%2], Email(Ada), "wrong") }) {
		wrong = errors.Join(wrong, count(answer))
	}
	began := time.Now()
	for limited := false; !limited && time.Since(began) < patience; {
		answer := guess(ctx, c.Nodes[0], Email(Ada), "wrong")
		wrong = errors.Join(wrong, count(answer))
		limited = answer.Status == http.StatusTooManyRequests
	}
	if wrong != nil {
		t.Error(wrong)
	}
	measured(t, "T73: guesses that were judged, of 200 at once on 2 nodes with a limit of 10", "%d", judged)
	// Fewer are no fault: a guess that waits too long for the count of all nodes counts and is not judged.
	if judged > guessLimit+len(c.Nodes) || judged == 0 {
		t.Errorf("%d guesses were judged, want 1 to %d", judged, guessLimit+len(c.Nodes))
	}
}
