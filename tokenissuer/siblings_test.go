package tokenissuer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/memstore"
)

// siblingNode is one of the nodes on a store, with what it says to the others and hears of them.
type siblingNode struct {
	*Issuer
	*Siblings
	tb       testing.TB
	audience []string
	warned   []error
}

// sibling starts a further node.
func (f *flow) sibling(name string) *siblingNode {
	f.tb.Helper()
	n := &siblingNode{Issuer: f.node(), tb: f.tb, audience: []string{flowIssuer}}
	tokens := NewVouchedTokens()
	n.Verifier.VouchBy(tokens)
	n.Siblings = &Siblings{
		Store: f.store, Master: n.Issuer.Master, Issuer: flowIssuer, Node: name, Tokens: tokens, Now: f.clock,
		Warn: func(err error) { n.warned = append(n.warned, err) },
	}
	return n
}

// twoSiblings are nodes that know of each other.
func (f *flow) twoSiblings() (a, b *siblingNode) {
	f.tb.Helper()
	a, b = f.sibling("a"), f.sibling("b")
	for _, n := range []*siblingNode{a, b, a} {
		n.tell()
		n.hear()
	}
	return a, b
}

func (n *siblingNode) tell() {
	n.tb.Helper()
	if err := n.Tell(n.tb.Context()); err != nil {
		n.tb.Fatal(err)
	}
}

func (n *siblingNode) hear() {
	n.tb.Helper()
	for more := true; more; {
		var err error
		if more, err = n.Hear(n.tb.Context()); err != nil {
			n.tb.Fatal(err)
		}
	}
}

// issue issues a token for a user.
func (n *siblingNode) issue(edit ...func(*Grant)) Tokens {
	n.tb.Helper()
	g := Grant{Type: BrowserSession, Client: &Client{ID: "app"}, Scopes: Scopes{ScopePublic}, User: &User{ID: "ada"}, FamilyID: NewID()}
	for _, e := range edit {
		e(&g)
	}
	tokens, err := n.Issue(g)
	if err != nil {
		n.tb.Fatal(err)
	}
	return tokens
}

// look verifies a token, and tells whether its signature was looked at.
func (n *siblingNode) look(token string) (verified bool, err error) {
	_, err = n.Verifier.VerifyAdmitted(token, n.audience, func() (func(bool), error) {
		verified = true
		return func(bool) {}, nil
	})
	return verified, err
}

// accepts ends the test unless the token is good, and its signature was verified or not, as wanted.
func (n *siblingNode) accepts(token Secret, verified bool) {
	n.tb.Helper()
	if got, err := n.look(token.Reveal()); err != nil || got != verified {
		n.tb.Fatalf("signature verified: %v (want %v), and the verdict is %v", got, verified, err)
	}
}

// refuses ends the test unless the token is refused for that reason.
func (n *siblingNode) refuses(token, reason string) {
	n.tb.Helper()
	if _, err := n.look(token); err == nil || AsError(err).Reason != reason {
		n.tb.Errorf("the verdict is %v, want %s", err, reason)
	}
}

// TestSiblingsSpareEachOtherSignatures: a token of one node is good on the other at first sight, and nobody verifies its
// signature; before the other has heard of it, somebody does.
func TestSiblingsSpareEachOtherSignatures(t *testing.T) {
	f := newFlow(t)
	a, b := f.twoSiblings()
	early := a.issue().AccessToken
	b.accepts(early, true)
	var tokens []Secret
	for range 3 {
		tokens = append(tokens, a.issue().AccessToken)
	}
	<-a.Ready()
	a.tell()
	b.hear()
	for _, token := range tokens {
		b.accepts(token, false)
		b.accepts(token, false) // and it is remembered as any other
	}
	if s, h := b.Tokens.Status(), b.Status(); s.Spared != 3 || s.Held != 4 || h.Heard != 4 || h.Refused != 0 {
		t.Errorf("%+v, %+v", s, h)
	}
	late := f.sibling("c") // what was said in the last moments is still there for a node that starts
	late.hear()
	late.accepts(tokens[0], false)
	if len(a.warned)+len(b.warned)+len(late.warned) > 0 {
		t.Errorf("%v, %v, %v", a.warned, b.warned, late.warned)
	}
}

// TestAloneNobodyIsTold: a node writes of its tokens only while others read it.
func TestAloneNobodyIsTold(t *testing.T) {
	f := newFlow(t)
	a := f.sibling("a")
	written := func() (digests int) {
		t.Helper()
		list, _, err := f.store.Vouchers(t.Context(), 0, "")
		f.must(err)
		for _, v := range list {
			digests += len(v.Digests) / sha256.Size
		}
		return digests
	}
	issue := func() {
		a.hear()
		a.issue()
		a.tell()
	}
	issue()
	if n := written(); n != 0 {
		t.Errorf("alone it has written of %d tokens", n)
	}
	b := f.sibling("b")
	b.tell()
	issue()
	if n := written(); n != 1 {
		t.Errorf("with a sibling it has written of %d tokens", n)
	}
	f.wait(3 * time.Minute) // b says nothing any more
	issue()
	issue()
	if n := written(); n != 0 {
		t.Errorf("left alone it has written of %d tokens", n)
	}
	list, _, err := f.store.Vouchers(t.Context(), 0, "b")
	f.must(err)
	if len(list) != 1 { // a greeting; more than one would be written in vain
		t.Errorf("%d vouchers of its own are left", len(list))
	}
}

// TestK15VouchedIsNotGood: that somebody has signed a token is all that a voucher says. Whatever else makes a token bad does
// so still, at first sight and afterwards.
func TestK15VouchedIsNotGood(t *testing.T) {
	f := newFlow(t)
	a, b := f.twoSiblings()
	good := a.issue()
	told := func(edit ...func(*Grant)) Tokens {
		t.Helper()
		tokens := a.issue(edit...)
		a.tell()
		b.hear()
		return tokens
	}
	t.Run("a bit altered", func(t *testing.T) {
		token := told().AccessToken.Reveal()
		for i := range len(token) {
			for bit := range 8 {
				altered := []byte(token)
				altered[i] ^= 1 << bit
				if _, err := b.look(string(altered)); err == nil {
					t.Fatalf("with bit %d of byte %d altered it is accepted", bit, i)
				}
			}
		}
		for _, other := range []string{token + "=", token + ".", " " + token, token[:len(token)-1], strings.ToUpper(token)} {
			if _, err := b.look(other); err == nil {
				t.Errorf("%q is accepted", other)
			}
		}
		if s := b.Tokens.Status(); s.Spared != 0 {
			t.Errorf("%d signatures were spared", s.Spared)
		}
		b.accepts(NewSecret(token), false)
	})
	t.Run("revoked", func(t *testing.T) {
		for kind, id := range map[RevocationKind]func(*AccessToken) string{
			RevokeToken:  func(t *AccessToken) string { return t.ID },
			RevokeFamily: func(t *AccessToken) string { return t.FamilyID },
		} {
			before, after := told(), told()
			b.accepts(before.AccessToken, false)
			for _, tokens := range []Tokens{before, after} { // seen before and not
				b.Revocations.Add(Revocation{Kind: kind, ID: id(tokens.Claims), ExpiresAt: f.clock().Add(MaxLifetime)})
				b.refuses(tokens.AccessToken.Reveal(), "token_revoked")
			}
		}
	})
	t.Run("for another audience", func(t *testing.T) {
		token := told().AccessToken.Reveal()
		_, err := b.Verifier.Verify(token, []string{"https://other.example"})
		if err == nil || AsError(err).Reason != "audience_wrong" {
			t.Error(err)
		}
	})
	t.Run("of another issuer", func(t *testing.T) {
		was := a.URL
		a.URL = "https://other.example"
		token := told().AccessToken.Reveal()
		a.URL = was
		b.refuses(token, "issuer_wrong")
	})
	t.Run("the revocations are stale", func(t *testing.T) {
		token := told().AccessToken.Reveal()
		b.Revocations.MarkFresh(f.clock().Add(-time.Hour))
		b.refuses(token, "revocations_stale")
		b.Revocations.MarkFresh(f.clock())
		b.accepts(NewSecret(token), false)
	})
	t.Run("expired", func(t *testing.T) {
		tokens := told(func(g *Grant) { g.Lifetime = 10 * time.Second })
		f.wait(16 * time.Second)
		b.Revocations.MarkFresh(f.clock())
		b.refuses(tokens.AccessToken.Reveal(), "token_expired")
	})
	t.Run("its key was withdrawn", func(t *testing.T) {
		before, after := told(), told()
		b.accepts(before.AccessToken, false)
		fresh, err := NewSigningKey(EdDSA, f.clock())
		f.must(err)
		f.must(b.Keys.Replace([]*SigningKey{fresh}, EdDSA))
		for _, tokens := range []Tokens{before, after, good} {
			b.refuses(tokens.AccessToken.Reveal(), "key_unknown")
		}
	})
}

// TestK14WhoCanWriteToTheStoreAloneCannotVouch: vouchers without the right MAC, changed, moved, repeated and old ones
// are not taken and counted, and somebody is told once.
func TestK14WhoCanWriteToTheStoreAloneCannotVouch(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Voucher)
		taken  bool
	}{
		{"as it was", func(*Voucher) {}, true},
		{"without a MAC", func(v *Voucher) { v.MAC = nil }, false},
		{"a MAC of nothing", func(v *Voucher) { v.MAC = make([]byte, sha256.Size) }, false},
		{"a shorter MAC", func(v *Voucher) { v.MAC = v.MAC[:16] }, false},
		{"another token", func(v *Voucher) { v.Digests[3] ^= 1 }, false},
		{"a token more", func(v *Voucher) { v.Digests = append(v.Digests, make([]byte, sha256.Size)...) }, false},
		{"a token less", func(v *Voucher) { v.Digests = v.Digests[:sha256.Size] }, false},
		{"tokens in another order", func(v *Voucher) {
			v.Digests = append(slices.Clone(v.Digests[sha256.Size:]), v.Digests[:sha256.Size]...)
		}, false},
		{"part of a digest", func(v *Voucher) { v.Digests = v.Digests[:sha256.Size+1] }, false},
		{"of another node", func(v *Voucher) { v.Node = "c" }, false},
		{"with another number", func(v *Voucher) { v.Number++ }, false},
		{"younger", func(v *Voucher) { v.At = v.At.Add(time.Microsecond) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlow(t)
			a, b := f.twoSiblings()
			token := a.issue().AccessToken
			a.issue()
			a.tell()
			b.receive(f, a.last(f), c.change, c.taken)
			b.accepts(token, !c.taken)
		})
	}
	t.Run("made with another master key", func(t *testing.T) {
		f, foreign := newFlow(t), newFlow(t)
		_, b := f.twoSiblings()
		a, _ := foreign.twoSiblings()
		a.issue()
		a.tell()
		b.receive(f, a.last(foreign), func(*Voucher) {}, false)
	})
	t.Run("heard before", func(t *testing.T) {
		f := newFlow(t)
		a, b := f.twoSiblings()
		a.issue()
		a.tell()
		first := a.last(f)
		a.issue()
		a.tell()
		b.hear()
		held := b.Tokens.Status().Held
		for range 2 {
			b.receive(f, first, func(*Voucher) {}, false)
		}
		if now := b.Tokens.Status().Held; now != held || len(b.warned) != 1 {
			t.Errorf("%d tokens are held, before %d; warned: %v", now, held, b.warned)
		}
	})
	t.Run("old", func(t *testing.T) {
		f := newFlow(t)
		a, b := f.twoSiblings()
		token := a.issue().AccessToken
		a.tell()
		late := f.sibling("late") // who was away
		v := a.last(f)
		f.wait(2*time.Minute + time.Second)
		b.hear()
		b.receive(f, v, func(*Voucher) {}, false)
		late.hear()
		for _, n := range []*siblingNode{b, late} {
			n.Revocations.MarkFresh(f.clock())
			n.accepts(token, true)
		}
	})
	t.Run("of an issuer beside ours", func(t *testing.T) {
		f := newFlow(t)
		a, b := f.twoSiblings()
		a.Siblings.Issuer = "https://other.example"
		token := a.issue().AccessToken
		a.tell()
		b.hear()
		if s := b.Status(); s.Heard != 0 || s.Refused != 0 {
			t.Errorf("%+v", s)
		}
		b.accepts(token, true)
	})
}

// TestLateVouchersAreNoAlarm: a node that starts meets what nodes that have gone wrote long ago, and one whose store was put
// back what it has heard. Neither is an attack, and what is one is told even then.
func TestLateVouchersAreNoAlarm(t *testing.T) {
	f := newFlow(t)
	a, b := f.twoSiblings()
	a.issue()
	a.tell()
	b.hear()
	told := a.last(f)
	store := memstore.New() // a standby that has not got everything
	f.must(store.AddVoucher(t.Context(), told, time.Time{}))
	b.Siblings.Store = store
	b.hear()
	f.wait(3 * time.Minute)
	b.hear()
	late := f.sibling("late")
	late.hear()
	for _, n := range []*siblingNode{b, late} {
		if s := n.Status(); s.Refused != 0 || len(n.warned) > 0 {
			t.Errorf("%s: %+v, warned: %v", n.Node, s, n.warned)
		}
	}
	f.must(store.AddVoucher(t.Context(), told, time.Time{})) // somebody repeats it
	b.hear()
	forged := told
	forged.Digests = make([]byte, sha256.Size)
	f.must(f.store.AddVoucher(t.Context(), forged, time.Time{}))
	starting := f.sibling("starting")
	starting.hear()
	for _, n := range []*siblingNode{b, starting} {
		if s := n.Status(); s.Refused != 1 || len(n.warned) != 1 {
			t.Errorf("%s: %+v, warned: %v", n.Node, s, n.warned)
		}
	}
}

// last returns what the node has written last.
func (n *siblingNode) last(f *flow) Voucher {
	n.tb.Helper()
	list, _, err := f.store.Vouchers(n.tb.Context(), 0, "")
	f.must(err)
	list = slices.DeleteFunc(list, func(v Voucher) bool { return v.Node != n.Node })
	if len(list) == 0 {
		n.tb.Fatal("nothing was written")
	}
	return list[len(list)-1]
}

// receive empties the store, puts a voucher there that was changed, and holds the node to take it or to refuse it.
func (n *siblingNode) receive(f *flow, v Voucher, change func(*Voucher), taken bool) {
	n.tb.Helper()
	_, err := f.store.DropVouchers(n.tb.Context(), f.clock().Add(time.Hour))
	f.must(err)
	v.Digests, v.MAC = bytes.Clone(v.Digests), bytes.Clone(v.MAC)
	change(&v)
	f.must(f.store.AddVoucher(n.tb.Context(), v, time.Time{}))
	heard, refused := n.Status().Heard, n.Status().Refused
	n.hear()
	s := n.Status()
	if got := s.Heard > heard; got != taken || (s.Refused > refused) == taken || (len(n.warned) == 0) != taken {
		n.tb.Errorf("it was taken: %v (want %v); %+v, warned: %v", got, taken, s, n.warned)
	}
}

// silentStore does not answer to vouchers, or refuses them.
type silentStore struct {
	VoucherStore
	refuse bool
	held   chan struct{} // closed by the first who waits
	once   sync.Once
}

func (s *silentStore) AddVoucher(ctx context.Context, _ Voucher, _ time.Time) error {
	if s.refuse {
		return errors.New("the database is away")
	}
	s.once.Do(func() { close(s.held) })
	<-ctx.Done()
	return ctx.Err()
}

// TestF32NobodyWaitsForTheStore: while it is slow, away, or answers nobody, tokens are issued as ever and good as ever. What
// waits is bounded, and what is left out is counted and never a fault of the token's.
func TestF32NobodyWaitsForTheStore(t *testing.T) {
	for name, refuse := range map[string]bool{"silent": false, "away": true} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			a, b := f.twoSiblings()
			s := &silentStore{VoucherStore: f.store, refuse: refuse, held: make(chan struct{})}
			a.Siblings.Store = s
			first := a.issue()
			ctx, cancel := context.WithCancel(t.Context())
			telling := make(chan error, 1)
			go func() { telling <- a.Tell(ctx) }()
			if refuse {
				if err := <-telling; err == nil {
					t.Error("telling has gone well")
				}
			} else {
				<-s.held
			}
			const most, more = 1 << 14, 5
			for range most + more {
				a.Verifier.Remember(NewID(), first.Claims)
			}
			cancel()
			if !refuse {
				if err := <-telling; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			if dropped := a.Tokens.Status().Dropped; dropped != 1+more {
				t.Errorf("%d tokens were left out, want %d", dropped, 1+more)
			}
			a.Siblings.Store = f.store
			last := a.issue().AccessToken // there is no room for it yet
			a.tell()
			next := a.issue().AccessToken
			a.tell()
			b.hear()
			b.accepts(first.AccessToken, true)
			b.accepts(last, true)
			b.accepts(next, false)
			if s := b.Status(); s.Heard != most+1 || s.Refused != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestSiblingsAtOnce: all of it beside each other, for the race detector.
func TestSiblingsAtOnce(t *testing.T) {
	f := newFlow(t)
	a, b := f.twoSiblings()
	var tokens [4][]Secret
	done := make(chan struct{})
	var talking, issuing sync.WaitGroup
	for _, step := range []func(context.Context) error{
		a.Tell, func(ctx context.Context) error { _, err := b.Hear(ctx); return err },
		func(ctx context.Context) error { _, err := a.Hear(ctx); return err },
	} {
		talking.Go(func() {
			for {
				if err := step(context.Background()); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range tokens {
		issuing.Go(func() {
			for range 50 {
				token := a.issue().AccessToken
				if _, err := b.look(token.Reveal()); err != nil {
					t.Error(err)
				}
				tokens[i] = append(tokens[i], token)
			}
		})
	}
	issuing.Wait()
	close(done)
	talking.Wait()
	a.tell()
	b.hear()
	if s := b.Status(); s.Heard != 200 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
}
