// Package webauthn lets people sign in with passkeys (WebAuthn Level 3). relyingparty.go says what the script of a page asks of the browser,
// ceremonies.go verifies what the browser answers, record.go is what is stored of a passkey, and names.go names authenticators.
//
// Nothing is stored for a question: its challenge is sealed, for one browser, one sign-in and ten minutes, and the answer brings it back.
package webauthn

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// RelyingParty asks for passkeys and verifies them (WebAuthn Level 3 §4). Its fields are set before use.
type RelyingParty struct {
	// ID is the RP ID, and Origin the origin of our pages.
	ID, Origin string
	SignIns    *signin.SignIns
	// Alone lets people sign in with a passkey alone.
	Alone bool
}

// MaxPasskeys is how many passkeys a user can have.
const MaxPasskeys = 20

// Visit is the browser and the sign-in in which a passkey is asked for. A challenge is good only there.
type Visit struct {
	// Browser is the secret of the browser.
	Browser oauth.Secret
	// SignIn is the id of the sealed sign-in; empty: the passkey is the only factor.
	SignIn string
}

// owner returns what a challenge is sealed to.
func (v Visit) owner(ceremony protocol.CeremonyType) string {
	return string(ceremony) + "\x00" + v.SignIn + "\x00" + v.Browser.Reveal()
}

// timeout is how long browsers wait for the user, in milliseconds.
const timeout = int(keys.WrapLifetime / 1_000_000)

// SignInRequest returns the options for a sign-in with a passkey alone, as JSON: any discoverable credential, and user verification
// (WebAuthn Level 3 §5.5).
func (rp *RelyingParty) SignInRequest(v Visit) (string, error) {
	return rp.request(v, protocol.VerificationRequired, nil)
}

// FactorRequest returns the options for a second factor of a user with these factors, as JSON. It returns "" if none is a passkey for this RP
// ID. User verification is not asked for, because the first factor has proved who the user is.
func (rp *RelyingParty) FactorRequest(own []*store.Factor, v Visit) (string, error) {
	known := rp.descriptors(own)
	if len(known) == 0 {
		return "", nil
	}
	return rp.request(v, protocol.VerificationDiscouraged, known)
}

func (rp *RelyingParty) request(v Visit, verification protocol.UserVerificationRequirement, known []protocol.CredentialDescriptor) (string, error) {
	challenge, err := rp.challenge(protocol.AssertCeremony, v)
	if err != nil {
		return "", err
	}
	return asJSON(protocol.PublicKeyCredentialRequestOptions{
		Challenge: challenge, RelyingPartyID: rp.ID, UserVerification: verification, AllowedCredentials: known, Timeout: timeout,
	})
}

// algorithms are those that authenticators use, in the order of preference.
var algorithms = []protocol.CredentialParameter{
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgES256},
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgEdDSA},
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgRS256},
}

// CreationRequest returns the options for a new passkey, as JSON (WebAuthn Level 3 §5.4): discoverable, without attestation, and not on an
// authenticator that has one of the user's. User verification is preferred only, because a passkey that has none is a second factor.
func (rp *RelyingParty) CreationRequest(ctx context.Context, user *store.User, v Visit) (string, error) {
	own, err := rp.SignIns.Factors.Of(ctx, user)
	if err != nil {
		return "", err
	}
	challenge, err := rp.challenge(protocol.CreateCeremony, v)
	if err != nil {
		return "", err
	}
	name, required := cmp.Or(user.Email, user.ID), true
	return asJSON(protocol.PublicKeyCredentialCreationOptions{
		RelyingParty: protocol.RelyingPartyEntity{CredentialEntity: protocol.CredentialEntity{Name: rp.SignIns.Factors.Name}, ID: rp.ID},
		User: protocol.UserEntity{
			CredentialEntity: protocol.CredentialEntity{Name: name}, DisplayName: cmp.Or(user.Name, name), ID: protocol.URLEncodedBase64(rp.handleOf(user)),
		},
		Challenge: challenge, Parameters: algorithms, CredentialExcludeList: rp.descriptors(own), Timeout: timeout,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: &required, UserVerification: protocol.VerificationPreferred,
		},
		Attestation: protocol.PreferNoAttestation,
	})
}

// handleOf returns the user handle of a user. It stays the same and says nothing about the user.
func (rp *RelyingParty) handleOf(user *store.User) string {
	return rp.SignIns.Families.Master.UserHandle(user.ID + "\x00" + user.DeclaredEmail())
}

// descriptors returns the passkeys for this RP ID.
func (rp *RelyingParty) descriptors(own []*store.Factor) []protocol.CredentialDescriptor {
	var list []protocol.CredentialDescriptor
	for _, f := range own {
		r, err := rp.open(f)
		id, idErr := oauth.DecodeBase64URL(nil, f.Credential)
		if err != nil || idErr != nil || r.RelyingParty != rp.ID {
			continue
		}
		d := protocol.CredentialDescriptor{Type: protocol.PublicKeyCredentialType, CredentialID: id}
		for _, t := range r.Transports {
			d.Transport = append(d.Transport, protocol.AuthenticatorTransport(t))
		}
		list = append(list, d)
	}
	return list
}

// IsUsable reports whether a passkey is for this RP ID. Browsers do not offer those for another one.
func (rp *RelyingParty) IsUsable(f *store.Factor) bool {
	return len(rp.descriptors([]*store.Factor{f})) == 1
}

// Accepted returns the user's passkeys for signalAllAcceptedCredentials, as JSON (WebAuthn Level 3 §5.1.10.3).
func (rp *RelyingParty) Accepted(user *store.User, own []*store.Factor) (string, error) {
	ids := []protocol.URLEncodedBase64{} // no passkey is an empty list
	for _, d := range rp.descriptors(own) {
		ids = append(ids, d.CredentialID)
	}
	return asJSON(map[string]any{"rpId": rp.ID, "userId": protocol.URLEncodedBase64(rp.handleOf(user)), "allAcceptedCredentialIds": ids})
}

// Unknown returns a credential that does not exist here for signalUnknownCredential, as JSON (WebAuthn Level 3 §5.1.10.2).
func (rp *RelyingParty) Unknown(credential string) (string, error) {
	return asJSON(map[string]any{"rpId": rp.ID, "credentialId": credential})
}

// CanAdd reports whether a user with these factors can add a passkey.
func (rp *RelyingParty) CanAdd(own []*store.Factor) bool {
	if rp == nil || !rp.SignIns.Factors.Passkeys {
		return false
	}
	isOther := func(f *store.Factor) bool { return f.Kind != store.Passkey }
	return len(slices.DeleteFunc(slices.Clone(own), isOther)) < MaxPasskeys
}

// asJSON encodes the options that the script of a page reads.
func asJSON(options any) (string, error) {
	text, err := json.Marshal(options)
	if err != nil {
		return "", oauth.AsError(err)
	}
	return string(text), nil
}
