package mail

import (
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Kind says what a letter is about. Its texts in the catalogues begin with "mail." and the kind.
type Kind string

// The kinds of letters. Those with a link need Letter.Link and Letter.Until.
const (
	Reset      Kind = "reset"      // a link to choose a new password
	Invitation Kind = "invitation" // a link to choose the first password
	Recovery   Kind = "recovery"   // an operator's link for a user who has lost everything
	// AddressConfirm has a link, to the new address. AddressChanged is the note to the old one; Detail is the new address.
	AddressConfirm Kind = "address_confirm"
	AddressChanged Kind = "address_changed"
	// PasswordChanged is a notice.
	PasswordChanged Kind = "password_changed"
	// FactorAdded and FactorRemoved are notices; Detail is the name of the factor, or empty.
	FactorAdded   Kind = "factor_added"
	FactorRemoved Kind = "factor_removed"
	// RecoveryCodesReplaced and RecoveryCodeUsed are notices; Detail of the latter is the number of codes that are left.
	RecoveryCodesReplaced Kind = "recovery_codes_replaced"
	RecoveryCodeUsed      Kind = "recovery_code_used"
	// Registration has a link with which a person without an account makes one. AccountExists tells a person who asks for one that there is
	// one already, and AccountElsewhere that one signs in to it at another service.
	Registration     Kind = "registration"
	AccountExists    Kind = "account_exists"
	AccountElsewhere Kind = "account_elsewhere"
	// Test is what an operator sends to try the settings.
	Test Kind = "test"
)

// Kinds are all kinds.
var Kinds = []Kind{
	Reset, Invitation, Recovery, AddressConfirm, AddressChanged, PasswordChanged, FactorAdded, FactorRemoved, RecoveryCodesReplaced,
	RecoveryCodeUsed, Registration, AccountExists, AccountElsewhere, Test,
}

// HasLink reports whether letters of the kind have a link.
func (k Kind) HasLink() bool {
	switch k {
	case Reset, Invitation, Recovery, AddressConfirm, Registration:
		return true
	}
	return false
}

// Letter is a mail to one person, before it is written.
type Letter struct {
	Kind Kind
	// To is the address.
	To string
	// Name is the person's name, or empty.
	Name string
	// Languages are those of the person, as in Accept-Language or ui_locales; empty: the default.
	Languages string
	// Link is the URL of a letter that has one.
	Link string
	// Until is when the link ceases to work. The letter is not sent after that.
	Until time.Time
	// Detail is what was added or removed, or the new address; see the kinds.
	Detail string
	// At is when the thing happened that the letter is about; zero: now.
	At time.Time
}

// Limits of a letter, in bytes. A longer name or detail is cut.
const (
	maxAddress = 254 // RFC 5321 §4.5.3.1.3
	maxShown   = 200
)

// CheckAddress refuses an address to which no mail can be sent. It accepts an address alone, without a name (RFC 5322 §3.4.1), in ASCII
// or UTF-8 (RFC 6531).
func CheckAddress(address string) error {
	parsed, err := mail.ParseAddress(address)
	unfit := func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) || strings.ContainsRune(`"\<>(),:;[]`, r)
	}
	switch {
	case len(address) > maxAddress:
		return fmt.Errorf("an e-mail address has at most %d bytes", maxAddress)
	case err != nil || parsed.Address != address || !utf8.ValidString(address) || strings.ContainsFunc(address, unfit):
		return fmt.Errorf("%.100q is no e-mail address to which mail could be sent: write it as ada@example.com", address)
	}
	return nil
}

// shown returns a text of people as it is put into a letter: on one line, without characters that control how the rest is shown, and not
// too long.
func shown(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}
