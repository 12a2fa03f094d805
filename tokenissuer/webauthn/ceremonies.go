package webauthn

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"time"

	"github.com/go-webauthn/webauthn/protocol"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The errors of a passkey that proves nothing.
var (
	// ErrUnknown is the error for a credential that does not exist here.
	ErrUnknown = oauth.NewError(oauth.InvalidGrant, "passkey_unknown")
	// ErrExpired is the error for an answer to a question that is more than ten minutes old.
	ErrExpired = oauth.NewError(oauth.InvalidGrant, "passkey_expired")
	// ErrNotAlone is the error for a passkey of a user who signs in at a provider or with the password of a directory.
	ErrNotAlone = oauth.NewError(oauth.InvalidGrant, "passkey_not_alone")
	// ErrTooMany is the error for a passkey beyond MaxPasskeys.
	ErrTooMany = oauth.NewError(oauth.InvalidRequest, "passkey_too_many")

	errWrong    = oauth.NewError(oauth.InvalidGrant, "passkey_wrong")
	errReplayed = oauth.NewError(oauth.InvalidGrant, "passkey_replayed")
	errOff      = oauth.NewError(oauth.InvalidRequest, "passkey_off")
)

// Used is a passkey that was used.
type Used struct {
	// ID is the id of the factor, and UserID its user's, who may be gone. Both are empty for ErrUnknown.
	ID, UserID string
	// Credential is the credential id in the answer, in base64url. It is known for ErrUnknown too.
	Credential string
	// WentBack reports that the authenticator's counter did not grow: there may be a copy of the key (WebAuthn Level 3 §6.1.1).
	WentBack bool
}

// SignIn verifies a passkey alone, with user verification, and returns its user. It counts as two factors. Failures are counted per address.
// The error is invalid_grant, alike for a disabled, removed or invited user and for a wrong answer, rate_limited after too many failures, and
// temporarily_unavailable. It takes no hashing slot.
//
// A user without a password here signs in elsewhere, and only there it is known whether the user still may: the error is then ErrNotAlone.
func (rp *RelyingParty) SignIn(ctx context.Context, answer oauth.Secret, v Visit, address string) (signin.SignedIn, Used, error) {
	settle, err := rp.SignIns.CountSignIn(ctx, address)
	if err != nil {
		return signin.SignedIn{}, Used{}, err
	}
	user, r, used, err := rp.signIn(ctx, answer, v)
	settle(err)
	if err != nil {
		return signin.SignedIn{}, used, err
	}
	who := signin.SignedIn{User: user, AuthTime: rp.SignIns.Families.Now()}
	who.Complete(r.method(), who.AuthTime)
	return who, used, nil
}

// signIn takes the steps of WebAuthn Level 3 §7.2. The challenge is spent last, so that garbage causes no write.
func (rp *RelyingParty) signIn(ctx context.Context, answer oauth.Secret, v Visit) (*store.User, record, Used, error) {
	if !rp.Alone {
		return nil, record{}, Used{}, errOff
	}
	a, err := rp.parse(answer, v)
	if err != nil {
		return nil, record{}, Used{}, err
	}
	fs := rp.SignIns.Families
	f, err := fs.Store.FactorByCredential(ctx, a.ID)
	used := Used{Credential: a.ID}
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = ErrUnknown
		}
		return nil, record{}, used, err
	}
	used.ID, used.UserID = f.ID, f.UserID
	user, err := fs.Directory.User(ctx, f.UserID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, record{}, used, err
	}
	if err != nil || !user.IsActive() || !f.IsOf(user) {
		return nil, record{}, used, errWrong.WithCause(errors.New("the user is gone or not active"))
	}
	if len(a.Response.UserHandle) == 0 {
		return nil, record{}, used, errWrong.WithCause(errors.New("there is no user handle"))
	}
	r, err := rp.verify(a, f, user, true)
	switch {
	case err != nil:
		return nil, r, used, err
	case user.PasswordHash.IsEmpty():
		return nil, r, used, ErrNotAlone
	}
	used.WentBack, err = rp.spend(ctx, a, f.ID)
	return user, r, used, err
}

// Prove verifies a passkey of the user as a second factor, and completes the sign-in with it. The error is invalid_grant, or
// temporarily_unavailable. Failures are not counted, because nobody guesses a signature.
func (rp *RelyingParty) Prove(ctx context.Context, who *signin.SignedIn, answer oauth.Secret, v Visit) (Used, error) {
	a, err := rp.parse(answer, v)
	if err != nil {
		return Used{}, err
	}
	used := Used{Credential: a.ID}
	own, err := rp.SignIns.Factors.Of(ctx, who.User)
	if err != nil {
		return used, err
	}
	for _, f := range own {
		if f.Kind != store.Passkey || f.Credential != a.ID {
			continue
		}
		used.ID, used.UserID = f.ID, f.UserID
		r, err := rp.verify(a, f, who.User, false)
		if err == nil {
			used.WentBack, err = rp.spend(ctx, a, f.ID)
		}
		if err == nil {
			who.Complete(r.method(), rp.SignIns.Families.Now())
		}
		return used, err
	}
	return used, errWrong.WithCause(errors.New("the user has no such passkey"))
}

// assertion is an answer whose challenge is ours. Nothing else in it is verified yet.
type assertion struct {
	*protocol.ParsedCredentialAssertionData
	// challenge identifies the challenge.
	challenge string
}

func (rp *RelyingParty) parse(answer oauth.Secret, v Visit) (assertion, error) {
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(answer.Reveal()))
	if err != nil {
		return assertion{}, errWrong.WithCause(err)
	}
	id, err := rp.openChallenge(protocol.AssertCeremony, parsed.Response.CollectedClientData, v)
	return assertion{parsed, id}, err
}

// verify verifies an assertion by a passkey of the user (WebAuthn Level 3 §7.2).
func (rp *RelyingParty) verify(a assertion, f *store.Factor, user *store.User, verified bool) (record, error) {
	r, err := rp.open(f)
	if err != nil {
		return r, oauth.AsError(err)
	}
	client, data := a.Response.CollectedClientData, a.Response.AuthenticatorData
	switch handle := string(a.Response.UserHandle); {
	case handle != "" && handle != rp.handleOf(user):
		err = errors.New("the user handle is another user's")
	case r.RelyingParty != rp.ID:
		err = errors.New("the passkey is for " + r.RelyingParty)
	case data.Flags.HasBackupEligible() != r.BackupEligible:
		err = errors.New("the backup eligibility has changed")
	default:
		err = a.Verify(client.Challenge, rp.ID, "", []string{rp.Origin}, nil, nil, protocol.TopOriginImplicitVerificationMode, false, verified, true,
			r.PublicKey, protocol.SignaturePolicy{})
	}
	if err != nil {
		return r, errWrong.WithCause(err)
	}
	return r, nil
}

// spend records that an assertion was used, which it can be once, and reports whether its counter went back.
func (rp *RelyingParty) spend(ctx context.Context, a assertion, id string) (wentBack bool, err error) {
	if err := rp.spendChallenge(ctx, a.challenge); err != nil {
		return false, err
	}
	now, counter := rp.SignIns.Families.Now(), a.Response.AuthenticatorData.Counter
	err = rp.SignIns.Families.Store.ChangeFactor(ctx, id, func(f *store.Factor) error {
		r, err := rp.open(f)
		if err != nil {
			return err
		}
		wentBack = counter <= r.Counter && (counter != 0 || r.Counter != 0)
		r.Counter, f.LastUsedAt = counter, now
		return rp.seal(f, r, now)
	})
	if errors.Is(err, store.ErrNotFound) {
		err = errWrong.WithCause(errors.New("the passkey was removed meanwhile"))
	}
	return wentBack, err
}

// maxCredentialID is the length of the longest credential id, in bytes (WebAuthn Level 3 §7.1).
const maxCredentialID = 1023

// Add adds the passkey in an answer to CreationRequest, and completes the sign-in with it. It is named after its authenticator or, if that is
// unknown, by name. With the user's first factor Add returns recovery codes, which are shown once. The error is invalid_grant for a wrong
// answer, ErrTooMany, and those of Factors.Enrol.
func (rp *RelyingParty) Add(ctx context.Context, who *signin.SignedIn, answer oauth.Secret, v Visit, name string) ([]oauth.Secret, error) {
	own, err := rp.SignIns.Factors.Of(ctx, who.User)
	switch {
	case err != nil:
		return nil, err
	case !rp.SignIns.Factors.Passkeys:
		return nil, errOff
	case !rp.CanAdd(own):
		return nil, ErrTooMany
	}
	a, err := protocol.ParseCredentialCreationResponseBytes([]byte(answer.Reveal()))
	if err != nil {
		return nil, errWrong.WithCause(err)
	}
	challenge, err := rp.openChallenge(protocol.CreateCeremony, a.Response.CollectedClientData, v)
	if err != nil {
		return nil, err
	}
	// An attestation that comes although none was asked for is ignored. To verify it, the library would fetch what its certificates name.
	object := &a.Response.AttestationObject
	object.Format, object.AttStatement, object.SubStatements = string(protocol.AttestationFormatNone), nil, nil
	data := object.AuthData
	_, err = a.Verify(a.Response.CollectedClientData.Challenge, rp.ID, []string{rp.Origin}, nil, nil, protocol.TopOriginImplicitVerificationMode, false, false, true,
		nil, algorithms, protocol.AttestationPolicy{}, protocol.SignaturePolicy{})
	if id := data.AttData.CredentialID; err == nil && (len(id) == 0 || len(id) > maxCredentialID || base64.RawURLEncoding.EncodeToString(id) != a.ID) {
		err = errors.New("the credential id is empty, too long or another one")
	}
	if err == nil && len(data.AttData.CredentialPublicKey) > maxPublicKey {
		err = errors.New("the public key is too long")
	}
	if err != nil {
		return nil, errWrong.WithCause(err)
	}
	if err := rp.spendChallenge(ctx, challenge); err != nil {
		return nil, err
	}
	now := rp.SignIns.Families.Now()
	f := &store.Factor{
		ID: oauth.NewID(), UserID: who.User.ID, DeclaredEmail: who.User.DeclaredEmail(), Kind: store.Passkey, Name: cmp.Or(nameOf(data.AttData.AAGUID), name),
		Credential: a.ID, CreatedAt: now, LastUsedAt: now,
	}
	r := record{RelyingParty: rp.ID, PublicKey: data.AttData.CredentialPublicKey, Counter: data.Counter, BackupEligible: data.Flags.HasBackupEligible()}
	for _, t := range a.Response.Transports[:min(len(a.Response.Transports), maxTransports)] {
		if len(t) <= maxTransport {
			r.Transports = append(r.Transports, string(t))
		}
	}
	if err := rp.seal(f, r, now); err != nil {
		return nil, err
	}
	return rp.SignIns.Factors.Enrol(ctx, who, f, r.method())
}

// maxPublicKey bounds a public key in bytes: one of RSA with 4096 bits has about 530. A longer one would take long to verify with.
// maxTransports and maxTransport bound what is stored of the ways to reach an authenticator.
const maxPublicKey, maxTransports, maxTransport = 1100, 8, 32

// challenge returns a challenge for one ceremony.
func (rp *RelyingParty) challenge(ceremony protocol.CeremonyType, v Visit) (protocol.URLEncodedBase64, error) {
	fs := rp.SignIns.Families
	sealed, err := keys.Wrap(fs.Master.Challenges, v.owner(ceremony), oauth.NewID(), fs.Now())
	if err != nil {
		return nil, err
	}
	return oauth.DecodeBase64URL(nil, sealed.Reveal())
}

// openChallenge returns the id of the challenge that a browser's answer brings back. A page of ours is in no frame, so an answer from within
// one is refused.
func (rp *RelyingParty) openChallenge(ceremony protocol.CeremonyType, client protocol.CollectedClientData, v Visit) (string, error) {
	if client.CrossOrigin || client.TopOrigin != "" {
		return "", errWrong.WithCause(errors.New("the answer comes from within a frame"))
	}
	fs := rp.SignIns.Families
	id, err := keys.Unwrap[string](fs.Master.Challenges, v.owner(ceremony), oauth.NewSecret(client.Challenge), fs.Now())
	switch {
	case err == nil:
		return id, nil
	case oauth.AsError(err).Reason == "seal_expired":
		return "", ErrExpired
	}
	return "", errWrong.WithCause(errors.New("the challenge is not ours, or of another browser or sign-in"))
}

// spendChallenge returns an error for a challenge that was used before, on any node.
func (rp *RelyingParty) spendChallenge(ctx context.Context, id string) error {
	fs := rp.SignIns.Families
	fresh, err := fs.UseOnce(ctx, "challenge", "", id, fs.Now().Add(keys.WrapLifetime+time.Minute))
	if err == nil && !fresh {
		err = errReplayed
	}
	return err
}
