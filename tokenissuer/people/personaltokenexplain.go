package people

import (
	"context"
	"errors"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// condition is a requirement for a token in addition to its form and its audience.
type condition struct {
	name, promise string
	holds         func(*PersonalTokens, *store.PersonalToken, *store.User) bool
}

var conditions = []condition{
	{"time", "it has not expired", func(p *PersonalTokens, record *store.PersonalToken, _ *store.User) bool {
		return p.issuer.Families.Now().Before(record.ExpiresAt)
	}},
	{"owner", "its owner is active, and is who made it", func(_ *PersonalTokens, record *store.PersonalToken, owner *store.User) bool {
		return owner.IsActive() && owner.Declared == record.UserDeclared
	}},
	{"permission", "personal_tokens lets its owner have tokens, by role or group", func(p *PersonalTokens, _ *store.PersonalToken, owner *store.User) bool {
		return p.rules.Allow(owner)
	}},
	{"scopes", "personal_tokens still has one of its scopes", func(p *PersonalTokens, record *store.PersonalToken, _ *store.User) bool {
		return len(p.rules.within(record.Scopes)) > 0
	}},
	{"revocation", "neither it nor its owner was revoked since it was made", func(p *PersonalTokens, record *store.PersonalToken, owner *store.User) bool {
		made := &store.TokenFamily{User: store.FamilyUser{ID: owner.ID}, Grant: store.Grant{ClientID: store.BuiltInClientID}, Validity: store.Validity{CreatedAt: record.CreatedAt}}
		return !p.issuer.Families.Revocations.RevokedFamily(made, owner.Organisation) && !p.issuer.Families.Revocations.Revoked(p.tokenOf(record, owner))
	}},
}

// Explain returns how Token decides about a text, by the current state of the store. It continues after a failed check, as
// token.Verifier.Explain does. The error is temporarily_unavailable.
func (p *PersonalTokens) Explain(ctx context.Context, text string, audiences []string) (token.Explanation, error) {
	x := token.Explanation{Accepted: true}
	add := func(name, promise string, reachable, passed bool, failure error) bool {
		f := token.Finding{Check: name, Promise: promise, Outcome: token.CheckNotReached}
		switch {
		case reachable && passed:
			f.Outcome = token.CheckPassed
		case reachable:
			f.Outcome, f.Reason = token.CheckFailed, oauth.AsError(failure).Reason
		}
		x.Accepted = x.Accepted && f.Outcome == token.CheckPassed
		x.Findings = append(x.Findings, f)
		return f.Outcome == token.CheckPassed
	}
	formed := add("form", "gh_pat_, 30 letters and digits, and their checksum", true, isWellFormed(text), errMalformed)
	var record *store.PersonalToken
	var owner *store.User
	var err error
	if formed {
		if record, err = p.stored().PersonalToken(ctx, oauth.DigestOf(text)); err != nil && !errors.Is(err, store.ErrNotFound) {
			return x, err
		}
	}
	known := add("token", "it was made here and not removed since", formed, err == nil, errUnknown)
	if known {
		if owner, err = p.issuer.Families.Directory.User(ctx, record.UserID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return x, err
		}
		known = err == nil
	}
	for _, c := range conditions {
		add(c.name, c.promise, known, known && c.holds(p, record, owner), errUnknown)
	}
	if known {
		x.Claims = p.tokenOf(record, owner)
	}
	add("audience", "it is for an audience of the route", known, known && x.Claims.HasAudience(audiences), token.ErrAudienceWrong)
	return x, nil
}
