package webauthn

import "encoding/hex"

// authenticators names common authenticators by their AAGUID (WebAuthn Level 3 §6.5.2). A name helps users to tell their passkeys apart. It is
// not verified and decides nothing.
var authenticators = map[string]string{
	"08987058cadc4b81b6e130de50dcbe96": "Windows Hello",
	"6028b017b1d44c02b4b3afcdafc96bb2": "Windows Hello",
	"9ddd1817af5a4672a2b93e3dd95000a9": "Windows Hello",
	"fbfc3007154e4ecc8c0b6e020557d7bd": "iCloud Keychain",
	"dd4ec289e01d41c9bb8970fa845d4bf2": "iCloud Keychain",
	"ea9b8d664d011d213ce4b6b48cb575d4": "Google Password Manager",
	"adce000235bcc60a648b0b25f1f05503": "Chrome · macOS",
	"771b48fdd3d44f749232fc157ab0507a": "Edge · macOS",
	"53414d53554e47000000000000000000": "Samsung Pass",
	"bada5566a7aa401fbd9645619a55120d": "1Password",
	"d548826e79b4db40a3d811116f7e8349": "Bitwarden",
	"531126d6e717415c93203d9aa6981239": "Dashlane",
	"0ea242b443c44a1b8b17dd6d0b6baec6": "Keeper",
	"b84e404815dc4dd08640f4f60813c8af": "NordPass",
	"50726f746f6e5061737350726f746f6e": "Proton Pass",
	"f38095407f1449c1a8b38f813b225541": "Enpass",
	"fdb141b25d84443e8a354698c205a502": "KeePassXC",
	"b78a0a556ef8d246a042ba0f6d55050c": "LastPass",
}

// nameOf returns the name of an authenticator, or "" if it is unknown.
func nameOf(aaguid []byte) string { return authenticators[hex.EncodeToString(aaguid)] }
