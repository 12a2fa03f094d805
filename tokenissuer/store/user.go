package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
)

// UserStatus says whether a user may sign in and tokens may act for the user.
type UserStatus string

// The states of a user. Disabled and locked differ only in the reason: an operator removed the user's access, or suspects that another
// person uses the account.
const (
	UserActive   UserStatus = "active"
	UserDisabled UserStatus = "disabled"
	UserLocked   UserStatus = "locked"
)

// ParseUserStatus returns the status of that name.
func ParseUserStatus(name string) (UserStatus, error) {
	switch s := UserStatus(name); s {
	case UserActive, UserDisabled, UserLocked:
		return s, nil
	}
	return "", fmt.Errorf("unknown status %q: use active, disabled or locked", name)
}

// User is a person or a program that a token can act for. Callers must not change a User that a directory returned.
//
// Fields with a help tag are its members (see Member). Its JSON form is its id and its members. The other fields are its state.
type User struct {
	ID   string `json:"id,omitzero"`
	Name string `json:"name,omitzero" help:"Name, as people know the user (default: the address)"`
	// Email is the sign-in address, as CanonicalEmail returns it. No two users share one.
	Email string `json:"email,omitzero" help:"E-mail address to sign in with"`
	// Role is empty for a user without a role.
	Role   Role       `json:"role,omitzero" help:"Role of the user, one that is declared, else admin, group_manager, business_manager or member (default: member)"`
	Status UserStatus `json:"status,omitzero" help:"active (default), disabled or locked"`
	// Organisation is the id of the user's organisation; empty: the user belongs to none.
	Organisation string `json:"organisation,omitzero" flag:"org" help:"Organisation the user belongs to (default: none)"`
	// Groups are those that an operator set, within the bounds of ValidateGroups.
	Groups []string `json:"groups,omitempty" help:"Group the user belongs to; repeat it for more"`
	// Profile is what else applications may learn about the user; nil: nothing.
	*Profile

	// ProviderGroups are those that a provider set, and GroupsBy names that provider: the last one that reported groups. All groups
	// together satisfy ValidateGroups.
	ProviderGroups []string `json:"-"`
	GroupsBy       string   `json:"-"`
	// EmailVerifiedBy says who verified that Email belongs to the user: VerifiedByOperator, VerifiedByMail, or a provider in the form of
	// VerifiedBy; empty, or Unvouched: it is not verified. A change of the address resets it.
	EmailVerifiedBy string `json:"-"`
	// PasswordHash is an argon2id hash in PHC form, or a bcrypt hash; empty: the user signs in at a provider, or cannot sign in yet.
	PasswordHash oauth.Secret `json:"-"`
	// External reports whether the user has an identity; see IdentityStore.
	External bool `json:"-"`
	// Apart reports that a person has got a password or linked an identity here while Email was Unvouched. The one who has the id at the source
	// of an import may be another person.
	Apart bool `json:"-"`
	// Service marks a service account. It has neither a password nor identities, and acts through the personal access tokens that an
	// operator creates for it.
	Service bool `json:"-"`
	// Version changes with password, organisation, role, groups and status. What a user has granted is valid for one version only. Stores
	// maintain it.
	Version   string    `json:"-"`
	CreatedAt time.Time `json:"-"`
	// UpdatedAt is when the user last changed; zero: not since CreatedAt.
	UpdatedAt time.Time `json:"-"`
	// Declared users come from the configuration and cannot be changed at run time.
	Declared bool `json:"-"`
}

// VerifiedByOperator is the EmailVerifiedBy of an address that an operator verified.
const VerifiedByOperator = "operator"

// VerifiedByMail is the EmailVerifiedBy of an address at which the user got a link of ours.
const VerifiedByMail = "mail"

// Unvouched is the EmailVerifiedBy of an address that the user may have chosen: it came unverified from an import, or from a provider that is no
// longer linked, or an operator has taken the verification back. An empty EmailVerifiedBy means that an operator has set the address.
const Unvouched = "unvouched"

// VerifiedBy returns the EmailVerifiedBy of an address that the named provider verified.
func VerifiedBy(provider string) string { return "provider " + provider }

// EmailVerified reports whether Email is verified to belong to the user.
func (u *User) EmailVerified() bool {
	return u.EmailVerifiedBy != "" && u.EmailVerifiedBy != Unvouched
}

// AllGroups returns the groups that an operator or a provider set, without duplicates.
func (u *User) AllGroups() []string {
	if len(u.ProviderGroups) == 0 {
		return u.Groups
	}
	all := slices.Clone(u.Groups)
	for _, group := range u.ProviderGroups {
		if !slices.Contains(u.Groups, group) {
			all = append(all, group)
		}
	}
	return all
}

// LastChange returns when the user last changed; zero: unknown.
func (u *User) LastChange() time.Time {
	if u.UpdatedAt.IsZero() {
		return u.CreatedAt
	}
	return u.UpdatedAt
}

// DeclaredEmail returns the address of a declared user, and "" for a stored one; see Identity.
func (u *User) DeclaredEmail() string {
	if u.Declared {
		return u.Email
	}
	return ""
}

// IsActive reports whether tokens may act for the user now. The user must be active and able to sign in, with a password or at a
// provider, or be a service account.
func (u *User) IsActive() bool {
	return u.Status == UserActive && (!u.PasswordHash.IsEmpty() || u.External || u.Service)
}

// SetDefaults fills in what a registration omitted: status active, the default role, and the e-mail address as name.
func (u *User) SetDefaults(roles RoleCatalogue) {
	if u.Status == "" {
		u.Status = UserActive
	}
	if u.Role == "" {
		u.Role = roles.Default()
	}
	if u.Name == "" {
		u.Name = u.Email
	}
}

// SetEmail sets the address. A different address is not verified.
func (u *User) SetEmail(canonical string) {
	if canonical != u.Email {
		u.Email, u.EmailVerifiedBy = canonical, ""
	}
}

// Merge applies a patch. A member that is reset gets the default of a new user. The address becomes canonical. An empty name becomes the
// address, and a different phone number is not verified unless the patch says so.
func (u *User) Merge(p Patch, roles RoleCatalogue) error {
	before := *u
	if err := p.Apply(u); err != nil {
		return err
	}
	if p.Has("email") {
		email, err := CanonicalEmail(u.Email)
		if err != nil {
			return err
		}
		u.Email = before.Email
		u.SetEmail(email)
	}
	if p.Resets("status") {
		u.Status = UserActive
	}
	if p.Resets("role") {
		u.Role = roles.Default()
	}
	if u.Name == "" {
		u.Name = u.Email
	}
	if p.Has("phone_number") && !p.Has("phone_number_verified") && (before.Profile == nil || before.Phone != u.Phone) {
		u.PhoneVerified = false
	}
	return nil
}

// ValidateMember returns an error if the named member is invalid, regardless of the others.
func (u *User) ValidateMember(name string) error {
	switch name {
	case "name", "role", "organisation":
		return nil
	case "email":
		return checkEmail(u.Email)
	case "status":
		_, err := ParseUserStatus(string(u.Status))
		return err
	case "groups":
		return ValidateGroups(u.Groups)
	}
	if u.Profile == nil {
		return nil
	}
	profile := *u.Profile
	profile.PhoneVerified = false // the number itself is another member
	return profile.Validate()
}

// checkEmail returns an error unless the address is canonical.
func checkEmail(address string) error {
	canonical, err := CanonicalEmail(address)
	if err == nil && canonical != address {
		err = fmt.Errorf("e-mail address %q: write it as %q", address, canonical)
	}
	return err
}

// Validate returns an error if the user is invalid. It does not know which roles and organisations exist.
func (u *User) Validate() error {
	if err := ValidateID(u.ID); err != nil {
		return fmt.Errorf("user id: %w", err)
	}
	if err := checkEmail(u.Email); err != nil {
		return err
	}
	if err := validateName(u.Name); err != nil {
		return fmt.Errorf("user name: %w", err)
	}
	if err := u.Profile.Validate(); err != nil {
		return err
	}
	if err := ValidateGroups(u.AllGroups()); err != nil {
		return err
	}
	if err := u.ValidateMember("status"); err != nil {
		return err
	}
	switch {
	case u.PasswordHash.IsEmpty():
		return nil
	case u.Service:
		return errors.New("a service account has no password: nobody signs in with it")
	}
	return passwords.ValidateHash(u.PasswordHash)
}

// ServiceEmail returns the address of a service account, because every user needs a unique one. No mail is sent to it (RFC 2606 §2).
func ServiceEmail(id string) string { return strings.ToLower(id) + "@service.invalid" }

// UnknownEmail returns the address of a user whose provider no longer vouches for one. It belongs to no person.
func UnknownEmail(id string) string { return strings.ToLower(id) + "@unknown.invalid" }

// IsReservedEmail reports whether a canonical address has the form of ServiceEmail or UnknownEmail.
func IsReservedEmail(email string) bool {
	return strings.HasSuffix(email, "@service.invalid") || strings.HasSuffix(email, "@unknown.invalid")
}

// CheckSubject returns an error for an id that cannot be a sub claim, which is ASCII (OpenID Connect Core 1.0 §2).
func CheckSubject(id string) error {
	if strings.ContainsFunc(id, func(r rune) bool { return r > unicode.MaxASCII }) {
		return fmt.Errorf("user id %q: applications know a user by it (sub), and OpenID Connect has ASCII there: use ASCII, as in u-ada", id)
	}
	return nil
}

// validateName returns an error for a name that does not fit on one line or shows nothing.
func validateName(name string) error {
	if len(name) > maxClientText || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name) {
		return fmt.Errorf("use at most %d bytes of text without control characters", maxClientText)
	}
	if name != "" && strings.TrimSpace(name) == "" {
		return errors.New("write more than spaces, or leave it out")
	}
	return nil
}

// declaredVersion returns the version of a declared user: a digest of everything that the version depends on.
func (u *User) declaredVersion() string {
	parts := append([]string{u.ID, u.Organisation, string(u.Role), string(u.Status), u.PasswordHash.Reveal(), strconv.FormatBool(u.External)}, u.Groups...)
	digest := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(digest[:8])
}

// Organisation is a group of users with its own admins. Its JSON form is its id and its members, as with User.
type Organisation struct {
	ID        string    `json:"id,omitzero"`
	Name      string    `json:"name,omitzero" help:"Name, as people know the organisation"`
	CreatedAt time.Time `json:"-"`
	// Declared organisations come from the configuration and cannot be changed at run time.
	Declared bool `json:"-"`
}

// SetDefaults fills in what a registration omitted: the id as name.
func (o *Organisation) SetDefaults() {
	if o.Name == "" {
		o.Name = o.ID
	}
}

// Validate returns an error if the organisation is invalid.
func (o *Organisation) Validate() error {
	if err := ValidateID(o.ID); err != nil {
		return fmt.Errorf("organisation id: %w", err)
	}
	if err := validateName(o.Name); err != nil {
		return fmt.Errorf("organisation name: %w", err)
	}
	return nil
}

// CanonicalUsername returns the form in which a name that is not an e-mail address is looked up and counted: without surrounding white
// space, in NFKC, in lower case. It returns "" for what cannot be a username: an empty text, more than 254 bytes, or characters that are
// not visible.
func CanonicalUsername(name string) string {
	canonical := strings.TrimSpace(norm.NFKC.String(strings.ToLower(norm.NFKC.String(name))))
	unseen := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
	if !utf8.ValidString(name) || len(canonical) > maxEmail || strings.ContainsFunc(canonical, unseen) {
		return ""
	}
	return canonical
}

const maxEmail = 254 // bytes; RFC 5321 §4.5.3.1.3

// CanonicalEmail returns the form in which an address is stored, looked up and counted: without surrounding white space and trailing
// dots, in NFKC, in lower case. One form means that no other spelling is another account or another rate limit bucket. The local part is
// otherwise kept, including a +tag. It returns an error for a text that is not an address.
func CanonicalEmail(address string) (string, error) {
	canonical := norm.NFKC.String(strings.ToLower(norm.NFKC.String(address)))
	canonical = strings.TrimRight(strings.TrimSpace(canonical), ". \t") // last, because NFKC turns other characters into dots and spaces
	local, domain, found := strings.Cut(canonical, "@")
	switch {
	case !utf8.ValidString(address), len(canonical) > maxEmail, !found, local == "", domain == "",
		strings.Contains(domain, "@"),
		strings.ContainsFunc(canonical, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return "", fmt.Errorf("%.64q is no e-mail address: write it as ada@example.com", address)
	}
	return canonical, nil
}
