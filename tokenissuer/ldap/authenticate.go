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
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/tracing"
)

// Directory authenticates people with an LDAP directory. It is safe for concurrent use. It connects on first use.
type Directory struct {
	plan   *plan
	pool   *pool
	turns  *fairqueue.Queue
	health signin.Health
	// namesAsSubjects reports that a person was identified by the name of the entry.
	namesAsSubjects atomic.Bool
}

// maxWaiting is the maximum number of waiting sign-ins.
const maxWaiting = 1024

// New returns the directory of the settings. It does not connect. The caller must close it.
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

// Close closes the idle connections. Those in use are closed after their last operation.
func (d *Directory) Close() error {
	d.pool.close()
	return nil
}

// maxLogin is the maximum length of a login in bytes.
const maxLogin = 254

// Authenticate returns the account of the person with that login and password. It returns store.ErrNotFound if the directory has no entry
// for the login, invalid_grant if it does not accept the person, and temporarily_unavailable if the directory fails.
//
// An unknown login takes the same steps as a wrong password: a search, and a bind on a separate connection.
func (d *Directory) Authenticate(ctx context.Context, a signin.DirectoryAttempt) (account signin.Account, err error) {
	// 1. The form of the login. An empty password would be an unauthenticated bind (RFC 4513 §5.1.2).
	if !d.isLogin(a.Login) {
		return signin.Account{}, store.ErrNotFound
	}
	if a.Password.IsEmpty() {
		return signin.Account{}, refused(ReasonRefused, errors.New("the password is empty"))
	}
	// 2. Wait for a turn.
	ctx, span := tracing.StartCall(ctx, "directory", "sign-in")
	defer func() { span.End(err) }()
	ctx, cancel := context.WithTimeout(ctx, d.plan.DialTimeout+2*d.plan.Timeout)
	defer cancel()
	leave, err := d.turns.Enter(ctx, fairqueue.Share{Name: a.Address, Most: max(1, d.plan.Connections/2)})
	if err != nil {
		e := oauth.Unavailable(ReasonBusy, err)
		e.RetryAfter = retryAfter
		return signin.Account{}, e
	}
	defer leave()
	account, err = d.signIn(ctx, a)
	d.note(err)
	return account, err
}

// TakesUsernames reports whether people can sign in with a name that is not an e-mail address.
func (d *Directory) TakesUsernames() bool { return d.plan.userFilter.has(usernamePlaceholder) }

// isLogin reports whether a text can be a person's username or address.
func (d *Directory) isLogin(login string) bool {
	return login != "" && len(login) <= maxLogin && utf8.ValidString(login) && (d.TakesUsernames() || strings.Contains(login, "@")) &&
		!strings.ContainsFunc(login, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
}

func (d *Directory) signIn(ctx context.Context, a signin.DirectoryAttempt) (none signin.Account, err error) {
	// 3. The entry, and the subject that identifies it.
	entry, err := d.find(ctx, a.Login)
	if err != nil {
		if fault := d.pretend(ctx, err); fault != nil {
			return none, fault
		}
		return none, err
	}
	subject, isName, err := d.plan.subject(entry)
	if err != nil {
		return none, unavailable(err)
	}
	// 4. Failures are counted by entry, under any login.
	if err := a.Admit(subject); err != nil {
		if fault := d.pretend(ctx, err); fault != nil {
			return none, fault
		}
		return none, err
	}
	// 5. The password, on a separate connection.
	if err := d.prove(ctx, entry.DN, a.Password); err != nil {
		return none, err
	}
	if isDisabled(entry) {
		return none, refused(ReasonDisabled, fmt.Errorf("%q", entry.DN))
	}
	if isName && d.namesAsSubjects.CompareAndSwap(false, true) && d.plan.Warn != nil {
		d.plan.Warn("the directory: people are known by the names of their entries", errors.New(namesAsSubjects))
	}
	// 6. The groups.
	account := d.plan.account(entry, subject, a.Login)
	if d.plan.knowsGroups() {
		err = d.pool.run(ctx, func(c *connection) (err error) {
			account.Groups, err = d.plan.groups(ctx, c, entry)
			return err
		})
	}
	if err != nil {
		return none, unavailable(err)
	}
	return account, nil
}

// find returns the only entry of a person.
func (d *Directory) find(ctx context.Context, login string) (*ldap.Entry, error) {
	filter := d.plan.userFilter.expand(emailPlaceholder, login, usernamePlaceholder, login)
	var entries []*ldap.Entry
	err := d.pool.run(ctx, func(c *connection) (err error) {
		entries, err = c.search(ctx, d.plan.UserBase, ldap.ScopeWholeSubtree, filter, d.plan.userAttributes(), 1)
		return err
	})
	switch {
	case errors.Is(err, errTooMany):
		return nil, refused(ReasonAmbiguous, errors.New("the filter finds several entries"))
	case err != nil:
		return nil, unavailable(fmt.Errorf("people below %s: %w", d.plan.UserBase, withoutReferral(err)))
	case len(entries) == 0:
		return nil, store.ErrNotFound
	case entries[0].DN == "":
		return nil, unavailable(errors.New("the directory has found an entry without a name"))
	}
	return entries[0], nil
}

// prove binds as a person, on a connection that it closes afterwards.
func (d *Directory) prove(ctx context.Context, dn string, password oauth.Secret) error {
	c, err := d.plan.dial(ctx)
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

// pretend takes the steps of a wrong password without checking one, so that the timing does not reveal the difference. It is used after a
// search that found no entry or several, or an entry with too many failures. It sends a random password. Like prove, it returns a fault of
// the directory.
func (d *Directory) pretend(ctx context.Context, found error) error {
	if !errors.Is(found, store.ErrNotFound) && oauth.AsError(found).Code != oauth.InvalidGrant {
		return nil
	}
	if err := d.prove(ctx, "cn="+rand.Text()+","+d.plan.UserBase, oauth.NewSecret(rand.Text())); oauth.AsError(err).Code == oauth.TemporarilyUnavailable {
		return err
	}
	return nil
}
