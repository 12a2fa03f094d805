package ldap_test

import (
	"bufio"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"

	. "github.com/gatehouse-auth/gatehouse/tokenissuer/ldap"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// fake is a dishonest directory. It answers every operation with the bytes that its handler returns.
type fake struct {
	t       testing.TB
	address string
	handle  func(f *fake, o operation) []byte
	// certificate is used after a successful StartTLS. With the zero value, no TLS follows.
	certificate tls.Certificate

	listener net.Listener
	serving  sync.WaitGroup

	mu         sync.Mutex
	conns      []net.Conn
	operations []operation
	accepted   int
}

// operation is a request from a client.
type operation struct {
	connection int // 1 is the first accepted one
	id         int64
	tag        ber.Tag
	packet     *ber.Packet
	conn       net.Conn
}

// newFake starts a directory on loopback. It is closed when the test ends.
func newFake(t testing.TB, handle func(f *fake, o operation) []byte) *fake {
	t.Helper()
	f := startFake(t, handle)
	t.Cleanup(f.close)
	return f
}

// startFake starts a directory on loopback. The caller must close it.
func startFake(t testing.TB, handle func(f *fake, o operation) []byte) *fake {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, address: listener.Addr().String(), handle: handle, listener: listener}
	f.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.accepted++
			n := f.accepted
			f.conns = append(f.conns, conn)
			f.mu.Unlock()
			f.serving.Go(func() { f.serve(conn, n) })
		}
	})
	return f
}

func (f *fake) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	for _, conn := range f.conns {
		_ = conn.Close()
	}
	f.mu.Unlock()
	f.serving.Wait()
}

func (f *fake) serve(conn net.Conn, n int) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	for {
		packet, err := ber.ReadPacket(reader)
		if err != nil || len(packet.Children) < 2 {
			return
		}
		o := operation{connection: n, id: packet.Children[0].Value.(int64), tag: packet.Children[1].Tag, packet: packet.Children[1], conn: conn}
		f.mu.Lock()
		f.operations = append(f.operations, o)
		f.mu.Unlock()
		answer := f.handle(f, o)
		if answer == nil {
			continue
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
		if o.tag == ldap.ApplicationExtendedRequest && f.certificate.Certificate != nil {
			conn = beginTLS(conn, f.certificate)
			reader = bufio.NewReader(conn)
		}
	}
}

// seen returns the operations with a tag.
func (f *fake) seen(tag ber.Tag) (found []operation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.operations {
		if o.tag == tag {
			found = append(found, o)
		}
	}
	return found
}

// settings returns settings for the directory, without TLS.
func (f *fake) settings() Settings {
	return Settings{
		Name: "fake",
		Server: Server{
			URL: "ldap://" + f.address, BindDN: "cn=reader,dc=example,dc=com", BindPassword: oauth.NewSecret("the reader's password"),
			Timeout: 30 * time.Second, DialTimeout: 30 * time.Second,
		},
		People: People{UserBase: "dc=example,dc=com", UserFilter: "(|(mail={email})(uid={username}))"},
	}
}

func message(id int64, operation *ber.Packet) []byte {
	m := ber.NewSequence("")
	m.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagInteger, id, ""))
	m.AppendChild(operation)
	return m.Bytes()
}

func text(value string) *ber.Packet {
	return ber.NewString(ber.ClassUniversal, ber.TypePrimitive, ber.TagOctetString, value, "")
}

// result returns an LDAPResult.
func result(o operation, tag ber.Tag, code int64, referrals ...string) []byte {
	r := ber.Encode(ber.ClassApplication, ber.TypeConstructed, tag, nil, "")
	r.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagEnumerated, code, ""))
	r.AppendChild(text(""))
	r.AppendChild(text("as the test has it"))
	if len(referrals) > 0 {
		list := ber.Encode(ber.ClassContext, ber.TypeConstructed, 3, nil, "")
		for _, uri := range referrals {
			list.AppendChild(text(uri))
		}
		r.AppendChild(list)
	}
	return message(o.id, r)
}

// entry returns a SearchResultEntry.
func entry(o operation, dn string, attributes map[string][]string) []byte {
	e := ber.Encode(ber.ClassApplication, ber.TypeConstructed, ldap.ApplicationSearchResultEntry, nil, "")
	e.AppendChild(text(dn))
	list := ber.NewSequence("")
	for name, values := range attributes {
		attribute := ber.NewSequence("")
		attribute.AppendChild(text(name))
		set := ber.Encode(ber.ClassUniversal, ber.TypeConstructed, ber.TagSet, nil, "")
		for _, value := range values {
			set.AppendChild(text(value))
		}
		attribute.AppendChild(set)
		list.AppendChild(attribute)
	}
	e.AppendChild(list)
	return message(o.id, e)
}

const adaDN = "CN=Ada,OU=Staff,DC=example,DC=com"

// adaInActiveDirectory returns an entry as in Active Directory.
func adaInActiveDirectory(control string) map[string][]string {
	return map[string][]string{
		"mail": {"ada@example.com"}, "displayName": {"Ada"}, "sAMAccountName": {"ada"}, "userAccountControl": {control},
		"objectGUID": {"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"},
	}
}

// honest answers like a directory with one person, ada, and accepts her password.
func honest(f *fake, o operation) []byte {
	switch o.tag {
	case ldap.ApplicationBindRequest:
		return result(o, ldap.ApplicationBindResponse, 0)
	case ldap.ApplicationSearchRequest:
		return append(entry(o, adaDN, adaInActiveDirectory("512")), result(o, ldap.ApplicationSearchResultDone, 0)...)
	}
	return nil
}

// but is honest, except for one kind of operation.
func but(tag ber.Tag, answer func(o operation) []byte) func(*fake, operation) []byte {
	return func(f *fake, o operation) []byte {
		if o.tag == tag {
			return answer(o)
		}
		return honest(f, o)
	}
}

// name returns the name in a bind request.
func (o operation) name() string { return o.packet.Children[1].Data.String() }

// TestP33NoNamesAreNotAskedFor: `*)(uid=*`, `\2a`, NUL, invisible or endless names → a name and nothing else, or not asked for.
func TestP33NoNamesAreNotAskedFor(t *testing.T) {
	f := newFake(t, honest)
	d := open(t, f.settings())
	for _, login := range []string{"", "ada\x00", "ada\n", "\u200bada", "a\u00adda", "ada\u202e", "\xff\xfe", strings.Repeat("a", 255)} {
		wantNobody(t, d, login, "right", "")
	}
	if f.accepted != 0 {
		t.Errorf("%d connections", f.accepted)
	}
}

// TestP35Referrals: a referral for a search or a bind → not followed.
func TestP35Referrals(t *testing.T) {
	elsewhere := newFake(t, honest)
	uri := "ldap://" + elsewhere.address + "/dc=example,dc=com"
	for _, test := range []struct {
		name   string
		handle func(*fake, operation) []byte
		reason string
	}{
		{"of a search", but(ldap.ApplicationSearchRequest, func(o operation) []byte {
			return result(o, ldap.ApplicationSearchResultDone, ldap.LDAPResultReferral, uri)
		}), ReasonUnavailable},
		{"of the service account", but(ldap.ApplicationBindRequest, func(o operation) []byte {
			return result(o, ldap.ApplicationBindResponse, ldap.LDAPResultReferral, uri)
		}), ReasonUnavailable},
		{"of a person", but(ldap.ApplicationBindRequest, func(o operation) []byte {
			if o.name() == adaDN {
				return result(o, ldap.ApplicationBindResponse, ldap.LDAPResultReferral, uri)
			}
			return result(o, ldap.ApplicationBindResponse, 0)
		}), ReasonUnavailable},
		{"beside no entry", but(ldap.ApplicationSearchRequest, func(o operation) []byte {
			reference := ber.Encode(ber.ClassApplication, ber.TypeConstructed, ldap.ApplicationSearchResultReference, nil, "")
			reference.AppendChild(text(uri))
			return append(message(o.id, reference), result(o, ldap.ApplicationSearchResultDone, 0)...)
		}), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantNobody(t, open(t, newFake(t, test.handle).settings()), "ada", "right", test.reason)
		})
	}
	if elsewhere.accepted != 0 {
		t.Errorf("%d connections to where a referral leads", elsewhere.accepted)
	}
}

// TestP36StartTLSStripped: StartTLS refused, misunderstood or by another certificate → temporarily_unavailable, no bind in the clear.
func TestP36StartTLSStripped(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func(o operation) []byte
	}{
		{"refused", func(o operation) []byte {
			return result(o, ldap.ApplicationExtendedResponse, ldap.LDAPResultProtocolError)
		}},
		{"not understood", func(o operation) []byte {
			return result(o, ldap.ApplicationExtendedResponse, ldap.LDAPResultUnwillingToPerform)
		}},
		{"accepted, and no TLS follows", func(o operation) []byte {
			return append(result(o, ldap.ApplicationExtendedResponse, 0), result(operation{id: o.id + 1}, ldap.ApplicationBindResponse, 0)...)
		}},
		{"accepted, by somebody with another certificate", func(o operation) []byte {
			if _, err := o.conn.Write(result(o, ldap.ApplicationExtendedResponse, 0)); err == nil {
				_ = tls.Server(o.conn, &tls.Config{Certificates: []tls.Certificate{strangersCertificate(t)}}).Handshake() // the client aborts it
			}
			return nil
		}},
		{"another answer", func(o operation) []byte { return result(o, ldap.ApplicationBindResponse, 0) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, but(ldap.ApplicationExtendedRequest, test.answer))
			s := f.settings()
			s.StartTLS, s.DialTimeout = true, 3*time.Second // time for the client to wait for TLS
			wantNobody(t, open(t, s), "ada", "right", ReasonUnavailable)
			if binds := f.seen(ldap.ApplicationBindRequest); len(binds) > 0 {
				t.Errorf("%d binds in the clear", len(binds))
			}
			if len(f.seen(ldap.ApplicationExtendedRequest)) == 0 {
				t.Error("nobody has asked for StartTLS: the test shows nothing")
			}
		})
	}
}

// TestP37InTheClear: `ldap://` off loopback without TLS → configuration error, with `insecure` a warning.
func TestP37InTheClear(t *testing.T) {
	for url, ok := range map[string]bool{
		"ldap://ldap.example.com": false, "ldap://10.0.0.1:389": false, "ldap://[2001:db8::1]": false, "ldap://127.0.0.1.example.com": false, "ldap://0.0.0.0": false,
		"ldap://127.0.0.1": true, "ldap://[::1]:1389": true, "ldap://localhost": true, "ldaps://ldap.example.com": true,
	} {
		s := Settings{Name: "corp", Server: Server{URL: url}, People: People{UserBase: "dc=example,dc=com"}}
		if err := s.Check(); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
		if s.Insecure = true; strings.HasPrefix(url, "ldap:") && s.Check() != nil {
			t.Errorf("%s with insecure: %v", url, s.Check())
		}
		if s.Insecure, s.StartTLS = false, true; strings.HasPrefix(url, "ldap:") && s.Check() != nil {
			t.Errorf("%s with start_tls: %v", url, s.Check())
		}
	}
}

// TestP39Nonsense: garbage, huge lengths, deep nesting, endless answers, two identifiers → the sign-in fails in bounded memory and time.
func TestP39Nonsense(t *testing.T) {
	endless := func(piece func(o operation) []byte) func(o operation) []byte {
		return func(o operation) []byte {
			p := piece(o)
			for sent := 0; ; {
				n, err := o.conn.Write(p)
				if sent += n; err != nil {
					return nil
				}
				if sent > 16<<20 { // more than socket buffers hold
					t.Errorf("%d bytes were taken", sent)
					return nil
				}
			}
		}
	}
	search, bind := ber.Tag(ldap.ApplicationSearchRequest), ber.Tag(ldap.ApplicationBindRequest)
	for _, test := range []struct {
		name   string
		tag    ber.Tag
		answer func(o operation) []byte
		reason string
		// unfinished: it reads as the beginning of a longer answer.
		unfinished bool
	}{
		{"garbage for a search", search, func(operation) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }, ReasonUnavailable, true},
		{"garbage for a bind", bind, func(operation) []byte { return []byte{0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0x02} }, ReasonUnavailable, false},
		{"a length beyond all measure", search, func(operation) []byte { return []byte{0x30, 0x88, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff} }, ReasonUnavailable, false},
		{"nothing, and the end", search, func(o operation) []byte { return []byte{} }, ReasonUnavailable, false},
		{"a deep nest", search, func(operation) []byte { return []byte(strings.Repeat("\x30\x80", 100_000)) }, ReasonUnavailable, false},
		{"an endless string", search, endless(func(operation) []byte {
			return append([]byte{0x30, 0x84, 0x7f, 0xff, 0xff, 0xff}, make([]byte, 64<<10)...)
		}), ReasonUnavailable, false},
		{"endless entries", search, endless(func(o operation) []byte { return entry(o, adaDN, adaInActiveDirectory("512")) }), ReasonAmbiguous, false},
		{"endless references", search, endless(func(o operation) []byte {
			reference := ber.Encode(ber.ClassApplication, ber.TypeConstructed, ldap.ApplicationSearchResultReference, nil, "")
			reference.AppendChild(text("ldap://elsewhere.example.com"))
			return message(o.id, reference)
		}), ReasonUnavailable, false},
		{"two entries, though one was asked for", search, func(o operation) []byte {
			two := append(entry(o, adaDN, adaInActiveDirectory("512")), entry(o, "CN=Eve,DC=example,DC=com", adaInActiveDirectory("512"))...)
			return append(two, result(o, ldap.ApplicationSearchResultDone, 0)...)
		}, ReasonAmbiguous, false},
		{"one entry, and that there are more", search, func(o operation) []byte {
			return append(entry(o, adaDN, adaInActiveDirectory("512")), result(o, ldap.ApplicationSearchResultDone, ldap.LDAPResultSizeLimitExceeded)...)
		}, ReasonAmbiguous, false},
		{"an entry without a name", search, func(o operation) []byte {
			return append(entry(o, "", adaInActiveDirectory("512")), result(o, ldap.ApplicationSearchResultDone, 0)...)
		}, ReasonUnavailable, false},
		{"an entry without an end", search, func(o operation) []byte {
			return append(entry(o, adaDN, adaInActiveDirectory("512")), result(o, ldap.ApplicationSearchResultDone, ldap.LDAPResultTimeLimitExceeded)...)
		}, ReasonUnavailable, false},
		{"an identifier of the wrong length", search, func(o operation) []byte {
			a := adaInActiveDirectory("512")
			a["objectGUID"] = []string{"short"}
			return append(entry(o, adaDN, a), result(o, ldap.ApplicationSearchResultDone, 0)...)
		}, ReasonUnavailable, false},
		{"two identifiers", search, func(o operation) []byte {
			return append(entry(o, adaDN, map[string][]string{"entryUUID": {"a", "b"}}), result(o, ldap.ApplicationSearchResultDone, 0)...)
		}, ReasonUnavailable, false},
		{"busy", bind, func(o operation) []byte { return result(o, ldap.ApplicationBindResponse, ldap.LDAPResultBusy) }, ReasonUnavailable, false},
		{"a code of its own", bind, func(o operation) []byte {
			if o.name() == adaDN {
				return result(o, ldap.ApplicationBindResponse, 4711)
			}
			return result(o, ldap.ApplicationBindResponse, 0)
		}, ReasonUnavailable, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, func(f *fake, o operation) []byte {
				if o.tag != test.tag {
					return honest(f, o)
				}
				answer := test.answer(o)
				if answer != nil && len(answer) == 0 {
					_ = o.conn.Close()
				}
				return answer
			})
			s := f.settings()
			if test.unfinished {
				s.Timeout = time.Second
			}
			wantNobody(t, open(t, s), "ada", "right", test.reason)
		})
	}
}

// TestP41NoConnectionOfAPerson: a connection bound with a person's password → closed, used for nothing else.
func TestP41NoConnectionOfAPerson(t *testing.T) {
	f := newFake(t, func(f *fake, o operation) []byte {
		if o.tag == ldap.ApplicationSearchRequest && strings.Contains(o.packet.Children[6].Children[0].Children[1].Data.String(), "eve") {
			return result(o, ldap.ApplicationSearchResultDone, 0)
		}
		return honest(f, o)
	})
	s := f.settings()
	s.GroupBase = "dc=example,dc=com"
	d := open(t, s)
	for range 3 {
		signedIn(t, d, "ada", "right")
	}
	wantNobody(t, d, "eve", "right", "")
	operations := map[int][]ber.Tag{}
	people := 0
	for _, o := range f.operations {
		operations[o.connection] = append(operations[o.connection], o.tag)
		if o.tag == ldap.ApplicationBindRequest && o.name() != s.BindDN {
			people++
			if got := operations[o.connection]; len(got) != 1 {
				t.Errorf("a person's bind comes after %v", got)
			}
			if strings.Contains(o.packet.Children[2].Data.String(), "right") != (o.name() == adaDN) {
				t.Errorf("bind as %s", o.name())
			}
		}
	}
	if people != 4 || f.accepted != 5 {
		t.Errorf("%d binds as people on %d connections", people, f.accepted)
	}
	for n, tags := range operations {
		if n > 1 && len(tags) > 1 {
			t.Errorf("connection %d was used again: %v", n, tags)
		}
	}
}

// TestP43ActiveDirectory: Active Directory: a disabled account → refused; objectGUID as its own tools write it; a ranged group list →
// temporarily_unavailable, and the log says what to set.
func TestP43ActiveDirectory(t *testing.T) {
	for control, reason := range map[string]string{"512": "", "66048": "", "514": ReasonDisabled, "66050": ReasonDisabled, "nonsense": ReasonDisabled} {
		f := newFake(t, but(ldap.ApplicationSearchRequest, func(o operation) []byte {
			return append(entry(o, adaDN, adaInActiveDirectory(control)), result(o, ldap.ApplicationSearchResultDone, 0)...)
		}))
		d := open(t, f.settings())
		if reason != "" {
			wantNobody(t, d, "ada", "right", reason)
			continue
		}
		if a := signedIn(t, d, "ada", "right"); a.Subject != "04030201-0605-0807-090a-0b0c0d0e0f10" || a.Profile.PreferredUsername != "ada" {
			t.Errorf("%s: %+v", control, a)
		}
	}
	t.Run("a list of groups in parts", func(t *testing.T) {
		f := newFake(t, but(ldap.ApplicationSearchRequest, func(o operation) []byte {
			a := adaInActiveDirectory("512")
			a["memberOf;range=0-1499"] = []string{"cn=staff,dc=example,dc=com"}
			return append(entry(o, adaDN, a), result(o, ldap.ApplicationSearchResultDone, 0)...)
		}))
		s := f.settings()
		s.Attributes.Groups = "memberOf"
		wantNobody(t, open(t, s), "ada", "right", ReasonUnavailable)
	})
}

// TestP44ANameForASubject: the configured identifier missing → temporarily_unavailable; no permanent identifier at all → the entry's name
// in one spelling, with a warning.
func TestP44ANameForASubject(t *testing.T) {
	name := adaDN
	f := newFake(t, but(ldap.ApplicationSearchRequest, func(o operation) []byte {
		return append(entry(o, name, map[string][]string{"mail": {"ada@example.com"}}), result(o, ldap.ApplicationSearchResultDone, 0)...)
	}))
	warnings := 0
	s := f.settings()
	s.Warn = func(string, error) { warnings++ }
	d := open(t, s)
	first := signedIn(t, d, "ada", "right").Subject
	name = "cn=ADA, ou=staff,dc=Example,dc=com"
	if again := signedIn(t, d, "ada", "right").Subject; again != first || first != strings.ToLower(adaDN) {
		t.Errorf("%q and %q", first, again)
	}
	if warnings != 1 {
		t.Errorf("%d warnings", warnings)
	}
}
