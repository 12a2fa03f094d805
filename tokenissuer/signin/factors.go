package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Authentication methods (RFC 8176 §2).
const (
	amrOTP = "otp"
	amrMFA = "mfa"
)

// FactorRule says which users need a second factor. The zero value covers no user.
type FactorRule struct {
	Everybody                    bool
	Roles, Groups, Organisations []string
}

// Covers reports whether the user needs a second factor.
func (r FactorRule) Covers(u *store.User) bool {
	inGroup := func(group string) bool {
		return slices.Contains(u.Groups, group) || slices.Contains(u.ProviderGroups, group)
	}
	return r.Everybody || slices.Contains(r.Roles, string(u.Role)) || u.Organisation != "" && slices.Contains(r.Organisations, u.Organisation) ||
		slices.ContainsFunc(r.Groups, inGroup)
}

// IsZero reports whether the rule covers no user.
func (r FactorRule) IsZero() bool {
	return !r.Everybody && len(r.Roles) == 0 && len(r.Groups) == 0 && len(r.Organisations) == 0
}

// FactorPolicy says which factors there are besides passwords, and who needs two. The zero value has none.
type FactorPolicy struct {
	// Required says who needs a second factor.
	Required FactorRule
	// TOTP lets people add authenticators for one-time passwords (RFC 6238).
	TOTP bool
	// Passkeys lets people add passkeys. RelyingParty is the RP ID of passkeys (WebAuthn Level 3 §4); empty: browsers offer none here.
	Passkeys     bool
	RelyingParty string
	// Name is what authenticators show beside the account.
	Name string
	// TrustedProviders verify second factors themselves. Required does not hold for their users.
	TrustedProviders []string
}

// CanAdd reports whether people can add a factor.
func (p *FactorPolicy) CanAdd() bool { return p.TOTP || p.Passkeys }

// Factors are the second factors with which people sign in. Its fields are set before use.
type Factors struct {
	FactorPolicy
	Families *families.Families
	// Post tells users of changes of their factors; nil: nobody is told.
	Post *mail.Post
}

// Demand is what a sign-in needs beyond the first factor.
type Demand int

// The demands.
const (
	// NothingMore: the sign-in is complete.
	NothingMore Demand = iota
	// AskFactor asks for one of the user's factors.
	AskFactor
	// AskEnrolment asks the user to add a factor.
	AskEnrolment
)

// DemandOf returns what a sign-in needs beyond the first factor. wanted reports that the request needs a sign-in of oauth.TwoFactorACR. A user who
// has a factor is always asked for it, except after a sign-in at a provider, where it is asked for only if it is needed.
func (fa *Factors) DemandOf(ctx context.Context, who SignedIn, wanted bool) (Demand, error) {
	if who.Proof.ACR == oauth.TwoFactorACR {
		return NothingMore, nil
	}
	required := fa.Required.Covers(who.User) && !slices.Contains(fa.TrustedProviders, who.Provider)
	if isAtProvider := who.Provider != "" && who.Proof.ACR != oauth.PasswordACR; isAtProvider && !required && !wanted {
		return NothingMore, nil
	}
	own, err := fa.Of(ctx, who.User)
	switch {
	case err != nil:
		return NothingMore, err
	case slices.ContainsFunc(own, (*store.Factor).IsSecond):
		return AskFactor, nil
	case (required || wanted) && fa.CanAdd():
		return AskEnrolment, nil
	}
	return NothingMore, nil
}

// ProofAt returns what a provider's proof of a sign-in counts here. The word of a trusted one for two factors is taken.
func (fa *Factors) ProofAt(provider string, proof store.Proof) store.Proof {
	if slices.Contains(fa.TrustedProviders, provider) && slices.Contains(proof.AMR, amrMFA) {
		proof.ACR = oauth.TwoFactorACR
	}
	return proof
}

// Suffices reports whether a family may still act for its user, although the rule may be younger than the family. It holds for families that
// came of a sign-in of the user.
func (fa *Factors) Suffices(f *store.TokenFamily, user *store.User) bool {
	switch f.Origin {
	case store.BrowserSession, store.HostSession, oauth.AuthorizationCode, oauth.DeviceCode, oauth.PasswordGrant:
		return f.SignIn.Proof.ACR == oauth.TwoFactorACR || !fa.Required.Covers(user) || slices.Contains(fa.TrustedProviders, f.SignIn.Provider)
	}
	return true
}

// Of returns the factors of a user, oldest first.
func (fa *Factors) Of(ctx context.Context, user *store.User) ([]*store.Factor, error) {
	all, err := fa.Families.Store.Factors(ctx, user.ID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(f *store.Factor) bool { return !f.IsOf(user) }), nil
}

// errWrongCode is the error for a code that proves nothing, whatever the reason.
var errWrongCode = oauth.NewError(oauth.InvalidGrant, "factor_wrong")

// Prove verifies a code of the user's authenticator, or one of the user's recovery codes, and completes the sign-in with it. It returns the
// kind of the factor that was used. A code is accepted once, on all nodes. The error is invalid_grant for a wrong code, rate_limited after
// five failures of the user, from wherever they came, and temporarily_unavailable.
func (fa *Factors) Prove(ctx context.Context, who *SignedIn, typed oauth.Secret) (store.FactorKind, error) {
	now := fa.Families.Now()
	var kind store.FactorKind
	err := fa.attempt(ctx, who.User.ID, now, func() (err error) {
		kind, err = fa.proveCode(ctx, who.User, typed, now)
		return err
	})
	if err != nil {
		return "", err
	}
	who.Complete(amrOTP, now)
	return kind, nil
}

// factorLimits bound the wrong codes of one user, from wherever they come: whoever gets there has proved the first factor. Guessing a code
// of six digits for a month, with three right ones at any time, then succeeds with a probability of less than one in two hundred. The store
// counts, so that neither many nodes nor a restart nor a flood of other failures gives further guesses.
var factorLimits = map[string]attempts.Limit{
	"factor":          {Failures: 5, Window: 5 * time.Minute},
	"factor of a day": {Failures: 50, Window: 24 * time.Hour},
}

// attempt makes an attempt to prove a factor. It counts the attempt before, and takes it back unless the code was wrong.
func (fa *Factors) attempt(ctx context.Context, userID string, now time.Time, prove func() error) error {
	var buckets []attempts.Bucket
	for kind, limit := range factorLimits {
		buckets = append(buckets, attempts.Bucket{Name: kind + "\x00" + userID, Limit: limit})
	}
	forgive, err := attempts.ReserveStored(ctx, fa.Families.Store, buckets, "factor_throttled", now)
	if err != nil {
		return err
	}
	err = prove()
	if err == nil || !hasLeft(ctx) && oauth.AsError(err).Code != oauth.InvalidGrant {
		forgive()
	}
	return err
}

// Complete makes a sign-in one of two factors, the second by that method (RFC 8176 §2). Its time stays that of the first, but for a provider
// that did not state one.
func (s *SignedIn) Complete(method string, now time.Time) {
	if s.AuthTime.IsZero() && s.Session == "" {
		s.AuthTime = now
	}
	proof := store.Proof{ACR: oauth.TwoFactorACR, AMR: slices.Clone(s.Proof.AMR)}
	for _, one := range []string{method, amrMFA} {
		if !slices.Contains(proof.AMR, one) { // an earlier sign-in of the session, or the provider, had it
			proof.AMR = append(proof.AMR, one)
		}
	}
	s.Proof = proof
}

func (fa *Factors) proveCode(ctx context.Context, user *store.User, typed oauth.Secret, now time.Time) (store.FactorKind, error) {
	own, err := fa.Of(ctx, user)
	if err != nil {
		return "", err
	}
	code := strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(typed.Reveal()))
	for _, f := range own {
		switch {
		case f.Kind == store.TOTP && len(code) == int(totpDigits):
			return store.TOTP, fa.proveTOTP(ctx, f, code, now)
		case f.Kind == store.RecoveryCodes && len(code) == recoveryCodeLength:
			return store.RecoveryCodes, fa.spendRecoveryCode(ctx, user, f, code, now)
		}
	}
	return "", errWrongCode
}

// proveTOTP verifies a code of an authenticator, and records that it was used.
func (fa *Factors) proveTOTP(ctx context.Context, f *store.Factor, code string, now time.Time) error {
	secret, err := OpenFactor[string](fa.Families, f)
	if err != nil {
		return err
	}
	if err := fa.matchOnce(ctx, f.ID, secret, code, now); err != nil {
		return err
	}
	err = fa.Families.Store.ChangeFactor(ctx, f.ID, func(f *store.Factor) error { f.LastUsedAt = now; return nil })
	if errors.Is(err, store.ErrNotFound) {
		return errWrongCode // removed meanwhile
	}
	return err
}

// matchOnce returns errWrongCode unless the code is one of the secret's, and neither it nor a later one was used before.
func (fa *Factors) matchOnce(ctx context.Context, id, secret, code string, now time.Time) error {
	step, matches := matchTOTP(secret, code, now)
	if !matches {
		return errWrongCode
	}
	fresh, err := false, error(nil)
	for used := step - 2*totpSkew; used <= step && err == nil; used++ { // with the code, those of earlier periods that are accepted now or later
		fresh, err = fa.Families.UseOnce(ctx, "totp", id, strconv.FormatInt(used, 10), now.Add((2*totpSkew+1)*totpPeriod))
	}
	if err == nil && !fresh {
		err = oauth.NewError(oauth.InvalidGrant, "factor_replayed")
	}
	return err
}

// ownerOfFactor returns what the data of a factor is sealed to.
func ownerOfFactor(f *store.Factor) string {
	return f.UserID + "\x00" + f.DeclaredEmail + "\x00" + f.ID
}

// Recovery codes.
const (
	recoveryCodes      = 10
	recoveryCodeBytes  = 10
	recoveryCodeLength = 16 // base32
)

// newRecoveryCodes returns new codes, and their digests.
func newRecoveryCodes() (codes []oauth.Secret, digests [][]byte) {
	for range recoveryCodes {
		random := make([]byte, recoveryCodeBytes)
		_, _ = rand.Read(random) // never fails
		code := secretEncoding.EncodeToString(random)
		digest := sha256.Sum256([]byte(code))
		digests = append(digests, digest[:])
		codes = append(codes, oauth.NewSecret(code[:4]+"-"+code[4:8]+"-"+code[8:12]+"-"+code[12:]))
	}
	return codes, digests
}

// spendRecoveryCode deletes a code and tells the user, or returns errWrongCode.
func (fa *Factors) spendRecoveryCode(ctx context.Context, user *store.User, f *store.Factor, code string, now time.Time) error {
	digest, remaining := sha256.Sum256([]byte(code)), 0
	err := fa.Families.Store.ChangeFactor(ctx, f.ID, func(f *store.Factor) error {
		left, err := OpenFactor[[][]byte](fa.Families, f)
		if err != nil {
			return err
		}
		before := len(left)
		left = slices.DeleteFunc(left, func(one []byte) bool { return subtle.ConstantTimeCompare(one, digest[:]) == 1 })
		if len(left) == before {
			return errWrongCode
		}
		f.LastUsedAt, remaining = now, len(left)
		return SealFactor(fa.Families, f, left, now)
	})
	if errors.Is(err, store.ErrNotFound) {
		return errWrongCode
	}
	if err == nil {
		fa.Post.Notify(ctx, user, mail.RecoveryCodeUsed, strconv.Itoa(remaining))
	}
	return err
}

// CodesLeft returns how many recovery codes are left in a factor.
func (fa *Factors) CodesLeft(f *store.Factor) int {
	left, _ := OpenFactor[[][]byte](fa.Families, f) // of a damaged factor none is left
	return len(left)
}

// OpenFactor returns the data of a factor, as SealFactor stored it.
func OpenFactor[T any](fs *families.Families, f *store.Factor) (T, error) {
	value, _, err := keys.UnwrapAny[T](fs.Master.Factors, ownerOfFactor(f), oauth.NewSecret(string(f.Data)))
	if err != nil {
		err = oauth.AsError(fmt.Errorf("opening factor %s: %w", f.ID, err))
	}
	return value, err
}

// SealFactor sets the data of a factor. It is sealed to its owner, so that a row of one user is worthless as a row of another.
func SealFactor[T any](fs *families.Families, f *store.Factor, value T, now time.Time) error {
	sealed, err := keys.Wrap(fs.Master.Factors, ownerOfFactor(f), value, now)
	f.Data = []byte(sealed.Reveal())
	return err
}
