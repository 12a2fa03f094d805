package ldap

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/federation"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Directory is a directory of people. It is safe for concurrent use. It connects when it is first asked.
type Directory struct {
	*plan
	pool   *pool
	turns  *fairqueue.Queue
	health federation.Health
	// namesAsSubjects says that somebody was identified by the name of an entry.
	namesAsSubjects atomic.Bool
}

// maxWaiting is how many sign-ins wait for their turn.
const maxWaiting = 1024

// New returns the directory of the settings. It connects to nobody. The caller closes it.
func New(s Settings) (*Directory, error) {
	p, err := s.plan()
	if err != nil {
		return nil, err
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	return &Directory{plan: p, pool: &pool{plan: p}, turns: fairqueue.New(p.Connections, maxWaiting)}, nil
}

// Close closes the connections that nobody uses. Those in use are closed after their last operation.
func (d *Directory) Close() error {
	d.pool.close()
	return nil
}

// maxLogin is how many bytes somebody can be called.
const maxLogin = 254

// Authenticate returns the account of whoever has that name or address and that password. It returns store.ErrNotFound if the
// directory knows nobody of that name, an invalid_grant if it knows somebody and does not let them in, and a
// temporarily_unavailable if it cannot be asked.
//
// A name that the directory does not know costs the same steps as a wrong password: a search, and a bind on a connection of its own.
func (d *Directory) Authenticate(ctx context.Context, a signin.DirectoryAttempt) (federation.Account, error) {
	// 1. Is it something that a directory can be asked about? An empty password would be an unauthenticated bind.
	if !d.isLogin(a.Login) {
		return federation.Account{}, store.ErrNotFound
	}
	if a.Password.IsEmpty() {
		return federation.Account{}, refused(ReasonRefused, errors.New("the password is empty"))
	}
	// 2. Wait for a turn.
	ctx, cancel := context.WithTimeout(ctx, d.DialTimeout+2*d.Timeout)
	defer cancel()
	leave, err := d.turns.Enter(ctx, fairqueue.Share{Name: a.Address, Most: max(1, d.Connections/2)})
	if err != nil {
		e := oauth.Unavailable(ReasonBusy, err)
		e.RetryAfter = retryAfter
		return federation.Account{}, e
	}
	defer leave()
	account, err := d.signIn(ctx, a)
	d.note(err)
	return account, err
}

// isLogin reports whether a text may be somebody's name or address here.
func (d *Directory) isLogin(login string) bool {
	return login != "" && len(login) <= maxLogin && utf8.ValidString(login) && (d.TakesUsernames() || strings.Contains(login, "@")) &&
		!strings.ContainsFunc(login, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
}

func (d *Directory) signIn(ctx context.Context, a signin.DirectoryAttempt) (none federation.Account, err error) {
	// 3. Find the one entry, and what identifies it.
	entry, err := d.find(ctx, a.Login)
	if err != nil {
		if fault := d.pretend(ctx, err); fault != nil {
			return none, fault
		}
		return none, err
	}
	subject, isName, err := d.subject(entry)
	if err != nil {
		return none, unavailable(err)
	}
	// 4. Failures of this entry are counted together, whatever it was called.
	if err := a.Admit(subject); err != nil {
		if fault := d.pretend(ctx, err); fault != nil {
			return none, fault
		}
		return none, err
	}
	// 5. The password, on a connection of its own.
	if err := d.prove(ctx, entry.DN, a.Password); err != nil {
		return none, err
	}
	if isDisabled(entry) {
		return none, refused(ReasonDisabled, fmt.Errorf("%q", entry.DN))
	}
	if isName && d.namesAsSubjects.CompareAndSwap(false, true) && d.Warn != nil {
		d.Warn("the directory: people are known by the names of their entries", errors.New(namesAsSubjects))
	}
	// 6. The groups.
	account := d.account(entry, subject, a.Login)
	if d.knowsGroups() {
		err = d.pool.run(ctx, func(c *connection) (err error) {
			account.Groups, err = d.groups(ctx, c, entry)
			return err
		})
	}
	if err != nil {
		return none, unavailable(err)
	}
	return account, nil
}

// find returns the one entry of a person.
func (d *Directory) find(ctx context.Context, login string) (*ldap.Entry, error) {
	filter := d.userFilter.expand(emailPlaceholder, login, usernamePlaceholder, login)
	var entries []*ldap.Entry
	err := d.pool.run(ctx, func(c *connection) (err error) {
		entries, err = c.search(ctx, d.UserBase, ldap.ScopeWholeSubtree, filter, d.userAttributes(), 1)
		return err
	})
	switch {
	case errors.Is(err, errTooMany):
		return nil, refused(ReasonAmbiguous, errors.New("the filter finds several entries"))
	case err != nil:
		return nil, unavailable(fmt.Errorf("people below %s: %w", d.UserBase, withoutReferral(err)))
	case len(entries) == 0:
		return nil, store.ErrNotFound
	case entries[0].DN == "":
		return nil, unavailable(errors.New("the directory has found an entry without a name"))
	}
	return entries[0], nil
}

// prove binds as somebody, on a connection that nobody uses afterwards.
func (d *Directory) prove(ctx context.Context, dn string, password oauth.Secret) error {
	c, err := d.dial(ctx)
	if err != nil {
		return unavailable(err)
	}
	defer c.close()
	switch err := c.bind(ctx, dn, password); {
	case err == nil:
		return nil
	case refusesPassword(err):
		return refused(ReasonRefused, err)
	default:
		return unavailable(fmt.Errorf("bind as %q: %w", dn, withoutReferral(err)))
	}
}

// pretend takes the steps of a wrong password where none is looked at, so that the time does not tell: after a search that found nobody,
// or several, or somebody for whom too many have failed. It returns a fault of the directory, as prove would. Nobody's password is sent.
func (d *Directory) pretend(ctx context.Context, found error) error {
	if !errors.Is(found, store.ErrNotFound) && oauth.AsError(found).Code != oauth.InvalidGrant {
		return nil
	}
	if err := d.prove(ctx, "cn="+rand.Text()+","+d.UserBase, oauth.NewSecret(rand.Text())); oauth.AsError(err).Code == oauth.TemporarilyUnavailable {
		return err
	}
	return nil
}
