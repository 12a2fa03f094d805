//go:build linux

package rig

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// obtain walks through a whole authorization, from the request to the tokens. If it was deferred in between, and the effect of a step is
// therefore unknown, it begins again, as people do.
func obtain(ctx context.Context, b *Browser, a Application) (Tokens, error) {
	for tries := 1; ; tries++ {
		tokens, answer, err := obtainOnce(ctx, b, a)
		if err == nil || tries == 5 || !answer.isPutOff() {
			return tokens, err
		}
	}
}

// isPutOff reports whether a request got a 503 before its answer, and the effect of the earlier request is therefore unknown.
func (a Answer) isPutOff() bool { return a.Repeated > 0 || a.Status == http.StatusServiceUnavailable }

// obtainOnce also returns the last answer, which says whether it was lost.
func obtainOnce(ctx context.Context, b *Browser, a Application) (Tokens, Answer, error) {
	request := a.Ask()
	code, answer, err := b.Authorize(ctx, request)
	if err != nil {
		return Tokens{}, answer, err
	}
	answer = request.Redeem(ctx, code)
	tokens, err := ReadTokens(answer)
	return tokens, answer, err
}

// mustObtain is obtain in the test's goroutine.
func mustObtain(t *testing.T, b *Browser, a Application) Tokens {
	t.Helper()
	tokens, err := obtain(t.Context(), b, a)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// at returns the same application, talking to one node alone.
func (a Application) at(n *Node) Application {
	a.URL = n.URL
	return a
}

// mustBe returns an error unless an answer has the status, and the OAuth error if one is named.
func mustBe(a Answer, status int, oauthError, what string) error {
	if a.Status != status || oauthError != "" && !strings.Contains(a.Body, `"error":"`+oauthError+`"`) {
		return fmt.Errorf("%s: %s, want %d %s", what, a, status, oauthError)
	}
	return nil
}

// refusedBy waits until a node refuses an access token, and returns how long that took.
func refusedBy(ctx context.Context, a Application, token string, n *Node) (time.Duration, error) {
	began := time.Now()
	for {
		switch answer := a.at(n).Use(ctx, token); {
		case answer.Status == http.StatusUnauthorized:
			return time.Since(began), nil
		case answer.Status != http.StatusOK:
			return 0, fmt.Errorf("at the gate of %s: %s", n.Addr, answer)
		case time.Since(began) > patience:
			return 0, fmt.Errorf("the gate of %s still accepts a dead token", n.Addr)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// command runs a command of `caddy oauth` against a node's admin endpoint, and returns its output.
func (n *Node) command(t *testing.T, input string, arguments ...string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	arguments = append(append([]string{"oauth"}, arguments...), "--address", n.Admin)
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Env = append(os.Environ(), asNode+"=1", "HOME="+n.Dir)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("caddy %s: %v: %s", strings.Join(arguments, " "), err, output)
	}
	return string(output)
}
