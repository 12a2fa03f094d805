package tokenissuer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// SignInAttempt is what somebody presents to prove that they are a user, on the sign-in page or with the password grant.
type SignInAttempt struct {
	// Email is an address, or a username where a directory takes them.
	Email    string
	Password oauth.Secret
	// Address is where the attempt comes from.
	Address string
	// Device is the cookie that an earlier sign-in left in this browser; empty: none.
	Device oauth.Secret
}

// SignedIn is a user who has just proved to be that user.
type SignedIn struct {
	User *store.User
	// Provider is where the user has proved it, and Subject names the user's account there; empty: here.
	Provider, Subject string
	// AuthTime is when; zero: the provider does not say.
	AuthTime time.Time
	// Proof is how, as far as that is known.
	Proof store.Proof
	// Login is the address or username that was typed, as it is counted; empty: none was.
	Login string
}

// SignIn returns the user whose address, or username, and password were presented. Unknown, disabled, locked and invited users and
// a wrong password are one invalid_grant after the same work; too many failures are rate_limited; when all hashing slots
// are taken it is temporarily_unavailable.
//
// Whoever has no password of ours is asked for in the directories, after that work and without a hashing slot: no directory costs time of
// those who have one. The errors are those of PasswordDirectory too; with an access_denied comes the Provider. Too many failures for one
// person in a directory look like a wrong password, whatever name was typed: nobody learns that two names are one person's.
//
// Failures are counted per account and per address, whether the account exists or not. A browser that has signed in to
// the account before has a count of its own, so that somebody else's failures do not lock it out.
func (is *Issuer) SignIn(ctx context.Context, a SignInAttempt) (SignedIn, error) {
	if n := len(a.Password.Reveal()); n > passwords.MaxBytes || strings.ContainsRune(a.Password.Reveal(), 0) {
		return SignedIn{}, oauth.NewError(oauth.InvalidRequest, "password_unusable")
	}
	now := is.Now()
	login, isEmail := is.canonicalLogin(a.Email)
	user, err := new(store.User), error(nil)
	if isEmail {
		user, err = is.Directory.UserByEmail(ctx, login)
	}
	if errors.Is(err, store.ErrNotFound) {
		user, err = new(store.User), nil
	}
	if err != nil {
		return SignedIn{}, err
	}
	device := is.deviceOf(ctx, a.Device, user, login)
	proofs := is.ProofBuckets(login, a.Address)
	if err := is.CheckProofs(ctx, proofs, now); err != nil {
		return SignedIn{}, err
	}
	account, address := is.SignInBuckets(login, device, a.Address)
	buckets := slices.Concat(account, address)
	if err := is.Reserve(ctx, buckets, "sign_in_throttled", now); err != nil {
		return SignedIn{}, err
	}
	proved := SignedIn{User: user}
	if is.DirectoriesAlone {
		err = oauth.NewError(oauth.InvalidGrant, "sign_in_failed")
	} else {
		err = is.provePassword(ctx, user, a.Password, passwords.Attempt{Account: login, Address: a.Address, Known: device != ""})
	}
	if (is.DirectoriesAlone || user.PasswordHash.IsEmpty()) && login != "" && oauth.AsError(err).Code == oauth.InvalidGrant && len(is.PasswordDirectories) > 0 {
		attempt := DirectoryAttempt{Login: login, Password: a.Password, Address: a.Address}
		proved, err = is.askDirectories(ctx, attempt, func(provider, subject string) error {
			person := is.PersonBuckets(provider, subject, device)
			if err := is.Reserve(ctx, person, "sign_in_throttled", now); err != nil {
				return oauth.NewError(oauth.InvalidGrant, "sign_in_throttled").WithCause(err)
			}
			buckets = append(buckets, person...)
			return nil
		})
	}
	switch {
	case err == nil:
		is.Forgive(ctx, buckets, now)
	case hasLeft(ctx): // whoever does not wait for the answer has tried all the same
	case errors.Is(err, oauth.ErrHashingBusy) && device == "" && !is.HasProved(ctx, proofs, now):
		// Whoever guesses makes the slots scarce, and has not shown yet to be anybody else: the address keeps its count.
		is.Forgive(ctx, account, now)
	case oauth.AsError(err).Code != oauth.InvalidGrant && oauth.AsError(err).Code != oauth.AccessDenied: // it failed for a reason of ours
		is.Forgive(ctx, buckets, now)
	}
	if err != nil {
		return SignedIn{Provider: proved.Provider}, err
	}
	is.CountProof(ctx, proofs, now)
	proved.AuthTime, proved.Login, proved.Proof = is.Now(), login, store.Proof{ACR: passwordACR, AMR: passwordAMR} // a directory has proved it by a bind
	return proved, nil
}

// provePassword compares the password with the user's. A user that does not exist costs the same: under every scheme
// that is in use one hash is made, for the user where it is the user's own and for nobody elsewhere.
func (is *Issuer) provePassword(ctx context.Context, user *store.User, password oauth.Secret, h passwords.Attempt) error {
	schemes, err := is.schemes.list(ctx, is)
	if err != nil {
		return err
	}
	leave, err := is.Hasher.Enter(ctx, h)
	if err != nil {
		return err
	}
	defer leave()
	own := passwords.SchemeOf(user.PasswordHash)
	matches := own != "" && passwords.Verify(password, user.PasswordHash)
	if matches && user.IsActive() {
		is.rehash(ctx, user, password)
		return nil
	}
	for _, scheme := range schemes {
		if scheme != own {
			passwords.Spend(password, scheme)
		}
	}
	return oauth.NewError(oauth.InvalidGrant, "sign_in_failed")
}

// rehash brings a stored hash that is cheaper than new ones up to date, now that the password is known. When it cannot
// be stored, the next sign-in tries again.
func (is *Issuer) rehash(ctx context.Context, user *store.User, password oauth.Secret) {
	if user.Declared || !passwords.IsOutdated(user.PasswordHash) {
		return
	}
	_ = is.Store.RehashPassword(ctx, user.ID, user.PasswordHash, passwords.Hash(password)) // see above
}

// schemesTTL is how long the list of schemes in use is remembered.
const schemesTTL = time.Minute

// schemesInUse remembers under which schemes passwords are stored.
type schemesInUse struct {
	mu    sync.Mutex
	known []string
	until time.Time
}

// list returns the schemes in use, the current one among them.
func (s *schemesInUse) list(ctx context.Context, is *Issuer) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := is.Now()
	if s.known != nil && now.Before(s.until) {
		return s.known, nil
	}
	stored, err := is.Store.PasswordSchemes(ctx)
	if err != nil {
		return nil, err
	}
	all := append(slices.Clone(stored), is.DeclaredSchemes...)
	all = append(all, passwords.CurrentScheme())
	slices.Sort(all)
	s.known, s.until = slices.Compact(all), now.Add(schemesTTL)
	return s.known, nil
}

// CountSignIn counts a sign-in at a provider against the address that it comes from, before the provider is asked. Settle takes that
// back after a success, and after a fault that is not of whoever signs in.
func (is *Issuer) CountSignIn(ctx context.Context, address string) (settle func(error), err error) {
	now := is.Now()
	_, buckets := is.SignInBuckets("", "", address)
	if err := is.Reserve(ctx, buckets, "sign_in_throttled", now); err != nil {
		return nil, err
	}
	return func(err error) {
		code := oauth.AsError(err).Code
		if err == nil || !hasLeft(ctx) && (code == oauth.TemporarilyUnavailable || code == oauth.ServerError) {
			is.Forgive(ctx, buckets, now)
		}
	}, nil
}

// hasLeft reports whether a client went away before it had its answer. What it tried stays counted: a fault that came of that is its own.
func hasLeft(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }
