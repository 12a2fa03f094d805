package webauthn

import (
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// record is the data of a passkey in the store (WebAuthn Level 3 §4, credential record). It is sealed to its owner, so that who can write
// to the store cannot add a key.
type record struct {
	// RelyingParty is the RP ID that the passkey was made for.
	RelyingParty string `json:"rp"`
	// PublicKey is a COSE key (RFC 9052 §7).
	PublicKey []byte `json:"key"`
	// Counter is the authenticator's last signature counter. Synced passkeys have none.
	Counter uint32 `json:"counter,omitzero"`
	// BackupEligible reports that the passkey can be synced.
	BackupEligible bool     `json:"backup_eligible,omitzero"`
	Transports     []string `json:"transports,omitempty"`
}

// Authentication methods (RFC 8176 §2). A passkey that can be synced is not bound to hardware.
const (
	amrHardwareKey = "hwk"
	amrSoftwareKey = "swk"
)

func (r record) method() string {
	if r.BackupEligible {
		return amrSoftwareKey
	}
	return amrHardwareKey
}

// open returns the record of a passkey.
func (rp *RelyingParty) open(f *store.Factor) (record, error) {
	if f.Kind != store.Passkey {
		return record{}, fmt.Errorf("factor %s is no passkey", f.ID)
	}
	return signin.OpenFactor[record](rp.SignIns.Families, f)
}

// seal stores a record in its factor.
func (rp *RelyingParty) seal(f *store.Factor, r record, now time.Time) error {
	return signin.SealFactor(rp.SignIns.Families, f, r, now)
}
