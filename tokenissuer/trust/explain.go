package trust

import (
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Explain explains how Verify decides with the keys known now. It makes no requests: it neither fetches a missing key nor
// introspects a token.
func (i *Issuer) Explain(tok string, audiences []string) token.Explanation {
	if i.introspector != nil && isOpaque(tok) {
		return i.introspector.explain(tok)
	}
	known := i.keys.Known()
	x := i.verifier.Explain(tok, audiences)
	failures := 0
	for n := range x.Findings {
		f := &x.Findings[n]
		if f.Outcome != token.CheckFailed {
			continue
		}
		failures++
		if f.Check == "key" && fetch.Missing(oauth.NewError(oauth.InvalidToken, f.Reason)) && i.claims(tok) {
			f.Note = noteOf(known)
			x.Undecided = true
		}
	}
	x.Undecided = x.Undecided && failures == 1
	return x
}

// noteOf explains why a key is missing.
func noteOf(known *fetch.Known) string {
	note := "keys are not fetched for an explanation; a request with this token may cause it"
	if known.Failed != nil {
		note += "; the last fetch failed: " + known.Failed.Error()
	}
	return note
}

// explain explains what Verify would do with an opaque token.
func (i *introspector) explain(tok string) token.Explanation {
	form := token.Finding{
		Check: "form", Promise: "letters, digits and -._~+/ with = at the end alone, at most 8 KiB", Outcome: token.CheckPassed,
	}
	asked := token.Finding{
		Check: "introspection", Promise: "introspection of " + i.endpoint.tokens.Issuer + " says that it is active and for this route", Outcome: token.CheckNotReached,
	}
	switch {
	case len(tok) > token.MaxTokenBytes:
		form.Outcome, form.Reason = token.CheckFailed, "token_too_long"
	case !oauth.IsB64Token(tok):
		form.Outcome, form.Reason = token.CheckFailed, "token_malformed"
	default:
		asked.Note = "nobody is asked for an explanation; a request with this token asks"
		if failed := i.outage.trouble(i.now()); failed != nil {
			asked.Note += "; " + failed.Error()
		}
	}
	return token.Explanation{
		Undecided: form.Outcome == token.CheckPassed, Findings: []token.Finding{form, asked},
	}
}

// Trouble returns what is wrong with the issuer, for its operator; nil: nothing known. It includes the last failed
// introspection, which Ready ignores because the next one may succeed.
func (i *Issuer) Trouble() error {
	if err := i.Ready(); err != nil || i.introspector == nil {
		return err
	}
	return i.introspector.outage.trouble(i.introspector.now())
}
