package signin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Source tells what has become of an account. Packages ldap and upstream implement it.
type Source interface {
	// Recheck returns the account as it is now. token is the refresh token that the provider gave last, or empty. The error is
	// store.ErrNotFound or invalid_grant if the person could not sign in now, and ErrNoToken if a refresh token is needed and there is none.
	// Any other error means that the provider could not be asked. The account has a new refresh token also beside an error.
	Recheck(ctx context.Context, subject string, token oauth.Secret) (Account, error)
}

// ErrNoToken is the error of a Source that needs a refresh token and has none.
var ErrNoToken = errors.New("the provider gave no refresh token: is offline_access among the scopes?")

// Recheck asks a provider what has become of the people who are signed in from there, so that those who have left there, or have other groups,
// do not stay until their next sign-in. Its fields are set before use.
type Recheck struct {
	Provider string
	Source   Source
	Accounts Accounts
	Rules    Rules
	// Left is called with each user whose sessions were ended, and why.
	Left func(userID string, why error)
	// Every is the interval of the rounds of RunDue, and Lease is the store's (store.Housekeeper). Round needs neither.
	Every time.Duration
	Lease func(ctx context.Context, name, holder string, until, now time.Time) (bool, error)

	mu    sync.Mutex // held during a round
	after string     // the subject at which a round was given up; empty: it was not
}

const (
	// recheckPage is the number of identities that are read at a time.
	recheckPage = 100
	// maxRecheckFaults is the number of faults in succession after which a round ends. Each may take as long as a timeout.
	maxRecheckFaults = 3
	// When at least leastAsked people of a page were asked about and more than half of them seem to have left, the question is probably wrong.
	leastAsked = 10
)

// recheckRetry is when a round that was given up goes on.
const recheckRetry = 5 * time.Minute

// RunDue runs a round, unless one was begun within the interval, and reports whether it did. Of all nodes, and of the configurations that
// follow each other on them, one runs a round in each interval: each round takes a lease of that length, under a name of its own. If its node
// dies, another one begins a round when the lease has expired.
func (r *Recheck) RunDue(ctx context.Context) (t Tally, ran bool, err error) {
	holder := oauth.NewID()
	lease := func(ctx context.Context, length time.Duration) (bool, error) {
		now := r.Accounts.now()
		return r.Lease(ctx, "recheck "+r.Provider, holder, now.Add(length), now)
	}
	if ran, err = lease(ctx, r.Every); err != nil || !ran {
		return t, false, err
	}
	t, err = r.round(ctx, func(ctx context.Context) (bool, error) { return lease(ctx, r.Every) }) // it may take longer than the interval
	if t.Unfinished {
		_, _ = lease(ctx, min(r.Every, recheckRetry)) // if that fails, it goes on after the interval
	}
	return t, true, err
}

// errTooManyLeft ends a round before it signs out everyone.
var errTooManyLeft = errors.New("more than half of the people seem to have left: none of them is signed out. Look at the provider, its client and its " +
	"search account")

// Tally is the result of a round.
type Tally struct {
	// Asked counts the people about whom the provider was asked, and Left those of them whose sessions were ended. WithoutToken counts those
	// about whom it could not be asked, because it gave no refresh token.
	Asked, Left, WithoutToken int
	// Unfinished reports that the round was given up because the provider could not be asked. The next one begins there.
	Unfinished bool
}

// Round asks about all users who have a session, or something that came of one, or a personal access token. Of a user whose account could not
// sign in now, it ends what came of the sign-ins at the provider. If the user has no other way to sign in, it ends everything, personal
// access tokens and tokens for others too. A change of groups ends sessions as it does at a sign-in. An error means that the provider, or the
// store, could not be asked about some users: their sessions go on.
func (r *Recheck) Round(ctx context.Context) (Tally, error) {
	return r.round(ctx, func(context.Context) (bool, error) { return true, nil })
}

// round is Round. leads is called before each page of people, and reports whether the round may go on.
func (r *Recheck) round(ctx context.Context, leads func(context.Context) (bool, error)) (t Tally, fault error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var subjects map[string]bool // of the first page, if the round begins in the middle
	for fromStart := r.after == ""; ; {
		if goesOn, err := leads(ctx); err != nil || !goesOn {
			return t, err
		}
		page, err := r.Accounts.Users.Identities().IdentitiesInUse(ctx, r.Provider, r.after, r.Accounts.now(), recheckPage)
		if err != nil {
			return t, err
		}
		isLast := len(page) < recheckPage
		if !fromStart && subjects == nil {
			subjects = make(map[string]bool)
			for _, identity := range page {
				subjects[identity.Subject] = true
			}
		} else if i := slices.IndexFunc(page, func(i store.Identity) bool { return subjects[i.Subject] }); fromStart && i >= 0 {
			page, isLast = page[:i], true // the round has come to its beginning
		}
		if err := r.lookAt(ctx, page, &t); err != nil {
			fault = err
		}
		switch {
		case t.Unfinished, ctx.Err() != nil, errors.Is(fault, errTooManyLeft):
			return t, fault
		case isLast:
			r.after = ""
			if fromStart {
				return t, fault
			}
			fromStart = true // now those before
		}
	}
}

// departure is a user whose account could not sign in now, and why.
type departure struct {
	identity store.Identity
	user     *store.User
	why      error
}

// lookAt asks about the accounts of a page, and then ends what the departed have, unless they are too many. It returns the last fault.
func (r *Recheck) lookAt(ctx context.Context, page []store.Identity, t *Tally) (fault error) {
	var departed []departure
	before, faults := t.Asked, 0
	for _, identity := range page {
		gone, err := r.look(ctx, identity.Subject, t)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.after = identity.Subject
		switch {
		case err == nil:
			faults = 0
		case oauth.AsError(err).Code == oauth.TemporarilyUnavailable: // any other fault is one of this account
			faults++
		}
		if err != nil {
			fault = err
		}
		if gone != nil {
			departed = append(departed, *gone)
		}
		if t.Unfinished = faults == maxRecheckFaults; t.Unfinished {
			break
		}
	}
	if asked := t.Asked - before; asked >= leastAsked && 2*len(departed) > asked {
		r.after = ""
		return errTooManyLeft
	}
	for _, d := range departed {
		if err := r.Accounts.endAt(ctx, d.identity, d.user); err != nil {
			return err
		}
		t.Left++
		r.Left(d.user.ID, d.why)
	}
	return fault
}

// look asks about one account, and applies the answer. It returns the user if the account could not sign in now.
func (r *Recheck) look(ctx context.Context, subject string, t *Tally) (*departure, error) {
	identities := r.Accounts.Users.Identities()
	asked, err := identities.UserByIdentity(ctx, r.Provider, subject)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil // unlinked meanwhile
	}
	if err != nil {
		return nil, err
	}
	user, err := r.Accounts.Families.Directory.User(ctx, asked.UserID)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && (!asked.IsOf(user) || !user.IsActive() || !r.Rules.knows(asked)):
		return nil, nil // nothing lives that this provider has vouched for
	case err != nil:
		return nil, err
	}
	token, err := r.Accounts.opened(asked)
	if err != nil {
		return nil, err
	}
	account, answer := r.Source.Recheck(ctx, subject, token)
	if errors.Is(answer, ErrNoToken) {
		t.WithoutToken++
		return nil, nil
	}
	t.Asked++
	// The answer took a while. Someone who has signed in meanwhile is there, and brought a newer refresh token. A new token is kept before
	// anything else can fail: the former one is void.
	ctx = context.WithoutCancel(ctx)
	identity, err := identities.UserByIdentity(ctx, r.Provider, subject)
	if err != nil || identity.UserID != asked.UserID || identity.RefreshToken != asked.RefreshToken || identity.LastUsedAt.After(asked.LastUsedAt) {
		return nil, err
	}
	if !account.RefreshToken.IsEmpty() {
		if identity.RefreshToken, err = r.Accounts.sealed(account); err != nil {
			return nil, err
		}
		if err := identities.TouchIdentity(ctx, identity); err != nil {
			return nil, err
		}
		account.RefreshToken = oauth.Secret{}
	}
	if answer == nil {
		answer = r.Accounts.recheck(ctx, account, r.Rules, identity, user)
	}
	if answer == nil {
		return nil, nil
	}
	if code := oauth.AsError(answer).Code; errors.Is(answer, store.ErrNotFound) || code == oauth.InvalidGrant || code == oauth.AccessDenied {
		return &departure{identity, user, answer}, nil
	}
	return nil, answer
}

// recheck applies what the provider says now about an account, by the rules of a sign-in. The error is access_denied for an account that the
// rules do not admit any more.
func (a Accounts) recheck(ctx context.Context, account Account, rules Rules, identity store.Identity, user *store.User) error {
	if !account.NamedOnly {
		if err := rules.allows(account, account.verifiedEmail()); err != nil {
			return err
		}
		account.Groups = rules.prefixed(account.Groups)
	}
	_, err := a.known(ctx, account, rules, identity, user, false)
	return err
}

// endAt ends what came of a user's sign-ins at a provider, or everything if the user has no other way to sign in.
func (a Accounts) endAt(ctx context.Context, identity store.Identity, user *store.User) error {
	all, err := a.Users.Identities().Identities(ctx, user.ID)
	isOther := func(i store.Identity) bool {
		return i.IsOf(user) && (i.Provider != identity.Provider || i.Subject != identity.Subject)
	}
	switch {
	case err != nil:
		return err
	case !user.PasswordHash.IsEmpty() || slices.ContainsFunc(all, isOther):
		return a.Families.EndFamilies(ctx, store.FamilyFilter{UserID: user.ID, Provider: identity.Provider})
	}
	if err := a.Families.EndPerson(ctx, user.ID); err != nil {
		return err
	}
	return a.Users.EndPersonalTokens(ctx, user.ID)
}

// sealed returns the refresh token of an account as it is stored, or "".
func (a Accounts) sealed(account Account) (string, error) {
	if account.RefreshToken.IsEmpty() {
		return "", nil
	}
	sealed, err := keys.Wrap(a.Families.Master.ProviderTokens, account.Provider+"\x00"+account.Subject, account.RefreshToken.Reveal(), a.now())
	return sealed.Reveal(), err
}

// opened is the reverse of sealed.
func (a Accounts) opened(i store.Identity) (oauth.Secret, error) {
	if i.RefreshToken == "" {
		return oauth.Secret{}, nil
	}
	text, _, err := keys.UnwrapAny[string](a.Families.Master.ProviderTokens, i.Provider+"\x00"+i.Subject, oauth.NewSecret(i.RefreshToken))
	if err != nil {
		return oauth.Secret{}, fmt.Errorf("opening the refresh token of an account at %s: %w", i.Provider, oauth.AsError(err))
	}
	return oauth.NewSecret(text), nil
}
