package signin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Attempt is an attempt to sign in with a password, on the sign-in page or by the password grant.
type Attempt struct {
	// Email is an e-mail address, or a username if a directory accepts usernames.
	Email    string
	Password oauth.Secret
	// Address is the address that the attempt comes from.
	Address string
	// Device is the device cookie of an earlier sign-in in this browser, or empty.
	Device oauth.Secret
}

// SignIns authenticates people. Its fields are set before use.
type SignIns struct {
	Families *families.Families
	// Hasher verifies passwords.
	Hasher *passwords.Hasher
	// Directories verify the passwords of people without a password here. They are asked in order.
	Directories []PasswordDirectory
	// DirectoriesAlone ignores passwords stored here.
	DirectoriesAlone bool
	// Pepper is what Devise appended to passwords before it hashed them; empty: nothing.
	Pepper oauth.Secret
	// DeclaredSchemes are the PasswordSchemes of declared users, which are not in the store.
	DeclaredSchemes []string
	// Limits bound failed sign-ins.
	Limits *attempts.Limits
	// Factors are what people sign in with beside a password or a provider.
	Factors *Factors
	// Post sends letters to people; nil: there is no mail.
	Post *mail.Post

	schemes schemesInUse
}

var passwordAMR = []string{"pwd"} // RFC 8176 §2

// SignedIn is a user who has just been authenticated.
type SignedIn struct {
	User *store.User
	// Provider is where the user was authenticated, and Subject the user's account there. They are empty if the user was authenticated
	// here.
	Provider, Subject string
	// AuthTime is when the user was authenticated. It is zero if the provider does not state it.
	AuthTime time.Time
	// Proof is how the user was authenticated, as far as is known.
	Proof store.Proof
	// Login is the canonical form of the address or username that was typed, or empty.
	Login string
	// Session is the session that is the first factor, and must still live; empty: the user has just signed in.
	Session string
}

// SignIn returns the user with that address or username and password. For unknown, disabled, locked and invited users, and for a wrong
// password, it does the same work and returns the same invalid_grant. After too many failures the error is rate_limited. While all hashing
// slots are in use, it is temporarily_unavailable.
//
// A user without a password here is looked up in the directories, after that work and without a hashing slot, so that a slow directory does
// not delay others. The errors then include those of PasswordDirectory; with an access_denied, SignIn also returns the Provider. Too many
// failures for one person in a directory look like a wrong password under any login. So the response does not reveal that two logins belong
// to one person.
//
// Failures are counted per account and per address, whether or not the account exists. Failures in a browser that has signed in to the
// account before are counted separately, so that other people's failures do not lock it out.
func (si *SignIns) SignIn(ctx context.Context, a Attempt) (SignedIn, error) {
	if n := len(a.Password.Reveal()); n > passwords.MaxBytes || strings.ContainsRune(a.Password.Reveal(), 0) {
		return SignedIn{}, oauth.NewError(oauth.InvalidRequest, "password_unusable")
	}
	now := si.Families.Now()
	login, isEmail := si.canonicalLogin(a.Email)
	user, err := new(store.User), error(nil)
	if isEmail {
		user, err = si.Families.Directory.UserByEmail(ctx, login)
	}
	if errors.Is(err, store.ErrNotFound) {
		user, err = new(store.User), nil
	}
	if err != nil {
		return SignedIn{}, err
	}
	device := si.deviceOf(ctx, a.Device, user, login)
	proofs := si.Limits.ProofBuckets(login, a.Address)
	if err := si.Limits.CheckProofs(ctx, proofs, now); err != nil {
		return SignedIn{}, err
	}
	account, address := si.Limits.SignInBuckets(login, device, a.Address)
	buckets := slices.Concat(account, address)
	if err := si.Limits.Reserve(ctx, buckets, "sign_in_throttled", now); err != nil {
		return SignedIn{}, err
	}
	proved := SignedIn{User: user}
	if si.DirectoriesAlone {
		err = oauth.NewError(oauth.InvalidGrant, "sign_in_failed")
	} else {
		err = si.provePassword(ctx, user, a.Password, passwords.Attempt{Account: login, Address: a.Address, Known: device != ""})
	}
	if (si.DirectoriesAlone || user.PasswordHash.IsEmpty()) && login != "" && oauth.AsError(err).Code == oauth.InvalidGrant && len(si.Directories) > 0 {
		attempt := DirectoryAttempt{Login: login, Password: a.Password, Address: a.Address}
		proved, err = si.askDirectories(ctx, attempt, func(provider, subject string) error {
			person := si.Limits.PersonBuckets(provider, subject, device)
			if err := si.Limits.Reserve(ctx, person, "sign_in_throttled", now); err != nil {
				return oauth.NewError(oauth.InvalidGrant, "sign_in_throttled").WithCause(err)
			}
			buckets = append(buckets, person...)
			return nil
		})
	}
	switch {
	case err == nil:
		si.Limits.Forgive(ctx, buckets, now)
	case hasLeft(ctx): // an attempt counts even if the client does not wait for the response
	case errors.Is(err, oauth.ErrHashingBusy) && device == "" && !si.Limits.HasProved(ctx, proofs, now):
		// Password guessing makes slots scarce. This address has not proved the account's password lately, so its own count stays.
		si.Limits.Forgive(ctx, account, now)
	case oauth.AsError(err).Code != oauth.InvalidGrant && oauth.AsError(err).Code != oauth.AccessDenied: // the failure is ours
		si.Limits.Forgive(ctx, buckets, now)
	}
	if err != nil {
		return SignedIn{Provider: proved.Provider}, err
	}
	si.Limits.CountProof(ctx, proofs, now)
	proved.AuthTime, proved.Login, proved.Proof = si.Families.Now(), login, store.Proof{ACR: oauth.PasswordACR, AMR: passwordAMR} // a directory verifies by a bind
	return proved, nil
}

// provePassword verifies the user's password. Its timing does not reveal whether the user exists: it computes one hash under each of the dearest
// schemes in use and the current one, whichever of them is the user's. A user with a cheaper one than all of these, as other servers have
// many, adds the little that it costs.
func (si *SignIns) provePassword(ctx context.Context, user *store.User, password oauth.Secret, h passwords.Attempt) error {
	schemes, err := si.schemes.list(ctx, si)
	if err != nil {
		return err
	}
	leave, err := si.Hasher.Enter(ctx, h)
	if err != nil {
		return err
	}
	defer leave()
	own := passwords.SchemeOf(user.PasswordHash)
	matches := own != "" && passwords.VerifyImported(password, si.Pepper, user.PasswordHash)
	if matches && user.IsActive() {
		si.rehash(ctx, user, password)
		return nil
	}
	for _, scheme := range schemes {
		if scheme != own {
			passwords.SpendImported(password, scheme)
		}
	}
	return oauth.NewError(oauth.InvalidGrant, "sign_in_failed")
}

// rehash replaces a stored hash of outdated cost, now that the password is known. If the new hash cannot be stored, the next sign-in
// retries.
func (si *SignIns) rehash(ctx context.Context, user *store.User, password oauth.Secret) {
	if user.Declared || !passwords.IsOutdated(user.PasswordHash) || passwords.IsDevise(user.PasswordHash) && !passwords.IsWhole(password) {
		return
	}
	_ = si.Families.Store.RehashPassword(ctx, user.ID, user.PasswordHash, passwords.Hash(password)) // an error is ignored; see above
}

// schemesTTL is how long the list of password schemes in use is cached.
const schemesTTL = time.Minute

// schemesInUse caches the schemes under which passwords are stored.
type schemesInUse struct {
	mu    sync.Mutex
	known []string
	until time.Time
}

// list returns the dearest schemes in use, and the current one.
func (s *schemesInUse) list(ctx context.Context, si *SignIns) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := si.Families.Now()
	if s.known != nil && now.Before(s.until) {
		return s.known, nil
	}
	stored, err := si.Families.Store.PasswordSchemes(ctx)
	if err != nil {
		return nil, err
	}
	all := append(slices.Clone(stored), si.DeclaredSchemes...)
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(passwords.CostOf(b), passwords.CostOf(a)), cmp.Compare(a, b))
	})
	all = slices.Compact(all)
	all = append(all[:min(len(all), passwords.DearestSchemes)], passwords.CurrentScheme())
	slices.Sort(all)
	s.known, s.until = slices.Compact(all), now.Add(schemesTTL)
	return s.known, nil
}

// CountSignIn counts a sign-in at a provider against the address that it comes from, before the provider is asked. settle undoes that after
// a success, and after a failure that is not the user's.
func (si *SignIns) CountSignIn(ctx context.Context, address string) (settle func(error), err error) {
	now := si.Families.Now()
	_, buckets := si.Limits.SignInBuckets("", "", address)
	if err := si.Limits.Reserve(ctx, buckets, "sign_in_throttled", now); err != nil {
		return nil, err
	}
	return func(err error) {
		code := oauth.AsError(err).Code
		if err == nil || !hasLeft(ctx) && (code == oauth.TemporarilyUnavailable || code == oauth.ServerError) {
			si.Limits.Forgive(ctx, buckets, now)
		}
	}, nil
}

// hasLeft reports whether the client disconnected before it got its response. Its attempt stays counted.
func hasLeft(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }
