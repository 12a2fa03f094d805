package clients

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// AssertionVerifier verifies JWTs of another issuer.
type AssertionVerifier interface {
	// VerifyAssertion returns the content of a JWT whose only audience is the given one. The error is an *oauth.Error: invalid_token, or
	// temporarily_unavailable if the JWT cannot be verified now.
	VerifyAssertion(ctx context.Context, text, audience string) (*token.AccessToken, error)
}

// AcceptRule determines which tokens of a trusted issuer are accepted as grants, and which tokens are issued for them (RFC 7523 §2.1).
type AcceptRule struct {
	// Name identifies the rule in the audit log: the name of the issuer and the rule's position among its rules.
	Name string
	// Trust is the name of the trusted issuer, and Issuer its identifier.
	Trust, Issuer string
	// Claims must all match. A rule for workloads has at least one.
	Claims []ClaimRule
	// Types are the accepted values of typ, in lower case. "" accepts a JWT without typ.
	Types []string
	// Subject is a template for sub, in which {name} stands for a claim. If it is empty, sub is the client.
	Subject string
	// ClientID is the client to which the tokens are issued. If it is empty, the client id is the subject.
	ClientID string
	// Scopes bound those of a token. In a rule for people, none means those of the client.
	Scopes oauth.Scopes
	// People accepts assertions that identify a person (ID-JAG), and issues tokens that act for users.
	People bool
	// LinkVerifiedEmail links a person to the user with the same verified address.
	LinkVerifiedEmail bool
}

// ClaimRule requires a claim to have one of the values.
type ClaimRule struct {
	name   string
	values []string
	globs  *regexp.Regexp // nil if no value has a *
}

// NewClaimRule returns the rule for a claim, or for a path to it as in token.AccessToken.Claim. In a value, * matches any characters except
// "/", and ** matches any characters. A value without them is compared as by token.AccessToken.HasClaim.
func NewClaimRule(name string, values []string) (ClaimRule, error) {
	var plain, alternatives []string
	for _, value := range values {
		if strings.Trim(value, "*/") == "" {
			return ClaimRule{}, fmt.Errorf("claims %s: %q fits anything: say what the claim must be", name, value)
		}
		if !strings.Contains(value, "*") {
			plain = append(plain, value)
			continue
		}
		var pattern strings.Builder
		for i, deep := range strings.Split(value, "**") {
			if i > 0 {
				pattern.WriteString("(?s:.*)")
			}
			for j, literal := range strings.Split(deep, "*") {
				if j > 0 {
					pattern.WriteString("[^/]*")
				}
				pattern.WriteString(regexp.QuoteMeta(literal))
			}
		}
		alternatives = append(alternatives, pattern.String())
	}
	if name == "" || len(values) == 0 {
		return ClaimRule{}, errors.New("write a claim and its values, as in `claims repository acme/app`")
	}
	if alternatives == nil {
		return ClaimRule{name: name, values: plain}, nil
	}
	compiled, err := regexp.Compile(`\A(?:` + strings.Join(alternatives, "|") + `)\z`)
	if err != nil {
		return ClaimRule{}, fmt.Errorf("claims %s: %w", name, err)
	}
	return ClaimRule{name, plain, compiled}, nil
}

// fits reports whether one of the claim's values matches.
func (r *ClaimRule) fits(t *token.AccessToken) bool {
	return t.HasClaim(r.name, r.values) || r.globs != nil && slices.ContainsFunc(t.Claim(r.name), r.globs.MatchString)
}

// Fits reports whether the rule matches a token with that typ.
func (r *AcceptRule) Fits(t *token.AccessToken, typ string) bool {
	if r.Issuer != t.Issuer || !slices.Contains(r.Types, typ) {
		return false
	}
	for i := range r.Claims {
		if !r.Claims[i].fits(t) {
			return false
		}
	}
	return true
}

// maxSubject is the maximum length of a subject in bytes.
const maxSubject = 255

// SubjectOf returns the sub of the token that the rule gives. Different claims give different subjects, because the text between two
// placeholders is matched at its first occurrence.
func (r *AcceptRule) SubjectOf(t *token.AccessToken) (string, error) {
	var subject strings.Builder
	for rest := r.Subject; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		subject.WriteString(literal)
		if !found {
			break
		}
		name, behind, _ := strings.Cut(after, "}")
		texts := t.Claim(name)
		if len(texts) != 1 {
			return "", oauth.NewError(oauth.InvalidGrant, "subject_claim_missing").WithCause(fmt.Errorf("the claim %q has %d values", name, len(texts)))
		}
		if between, _, more := strings.Cut(behind, "{"); more && strings.Index(texts[0]+between, between) < len(texts[0]) {
			return "", oauth.NewError(oauth.InvalidGrant, "subject_ambiguous").
				WithCause(fmt.Errorf("the claim %q has %q in it, behind which the subject has another claim", name, between))
		}
		subject.WriteString(texts[0])
		rest = behind
	}
	text := subject.String()
	if text == "" || len(text) > maxSubject || strings.ContainsFunc(text, unicode.IsControl) {
		return "", oauth.NewError(oauth.InvalidGrant, "subject_unusable")
	}
	return text, nil
}

// CheckSubject returns an error for a template that could give the subject of another party. The template must begin with a text and a
// colon, because otherwise a claim could determine the whole subject. It must not have adjacent claims.
func CheckSubject(template string) error {
	prefix, _, _ := strings.Cut(template, "{")
	switch {
	case !strings.Contains(prefix, ":") || strings.ContainsFunc(template, unicode.IsControl):
		return fmt.Errorf("subject %.64q: begin with a text and a colon, as in github:{repository}, so that no claim can name somebody else", template)
	case strings.Contains(template, "}{"):
		return fmt.Errorf("subject %.64q: put a text between two claims", template)
	case strings.Count(template, "{") != strings.Count(template, "}"):
		return fmt.Errorf("subject %.64q: write a claim as {name}", template)
	}
	for rest := template; ; {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			return nil
		}
		name, behind, closed := strings.Cut(after, "}")
		if !closed || name == "" || strings.ContainsAny(name, "{ ") {
			return fmt.Errorf("subject %.64q: write a claim as {name}", template)
		}
		rest = behind
	}
}
