// Package smtp hands messages to a mail server for submission (RFC 6409), by SMTP over TLS.
package smtp

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// DefaultTimeout bounds an attempt to send a message.
const DefaultTimeout = 30 * time.Second

// Settings say how messages reach the mail server.
type Settings struct {
	// URL is smtp://host:port, which needs STARTTLS (RFC 3207), or smtps://host:port, with TLS from the beginning (RFC 8314). The default
	// ports are 587 and 465.
	URL string
	// Insecure sends messages over smtp:// without TLS.
	Insecure bool
	// CA are the certificates of the server's authorities, in PEM. Default: those of the system count.
	CA string
	// From is the sender: an address, or a name and an address (RFC 5322 §3.4).
	From string
	// User and Password authenticate to the server; empty: without authentication.
	User     string
	Password oauth.Secret
	// Hello is the name by which this server introduces itself.
	Hello string
	// Timeout bounds an attempt, from the look-up of the host until the server has the message. Default: DefaultTimeout.
	Timeout time.Duration
	// AcceptTimeout is how long the server may take to accept a message that it has: it may look at it before (RFC 5321 §4.5.3.2.6).
	// Default: mail.MaxTimeout.
	AcceptTimeout time.Duration
}

// Sender sends messages, each over a connection of its own.
type Sender struct {
	settings Settings
	host     string
	port     int
	implicit bool // TLS from the beginning
	from     *netmail.Address
	tls      *tls.Config
}

// New returns a Sender. It connects to nothing yet.
func New(s Settings) (*Sender, error) {
	sender := &Sender{settings: s}
	if err := errors.Join(sender.readURL(), sender.readFrom(), sender.readCA()); err != nil {
		return nil, err
	}
	switch {
	case s.User == "" != s.Password.IsEmpty():
		return nil, errors.New("give both user and password, or neither")
	case s.Insecure && sender.implicit:
		return nil, errors.New("insecure is for smtp://: take it away, smtps:// always has TLS")
	case s.Insecure && s.User != "" && !oauth.IsLoopback(sender.host):
		return nil, errors.New("the password would be sent in the clear: take insecure away, or user and password")
	case s.Timeout < 0 || s.Timeout > mail.MaxTimeout:
		return nil, fmt.Errorf("timeout: use at most %s", mail.MaxTimeout)
	}
	sender.settings.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	sender.settings.AcceptTimeout = cmp.Or(s.AcceptTimeout, mail.MaxTimeout)
	return sender, nil
}

func (s *Sender) readURL() error {
	usage := fmt.Errorf("%q is no mail server: write it as smtp://smtp.example.com:587, or with smtps and port 465", s.settings.URL)
	u, err := url.Parse(s.settings.URL)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		if err == nil && u.User != nil { // the URL is not repeated: it may have a password
			return errors.New("the URL of the mail server has no credentials: write them as user and password")
		}
		return usage
	}
	s.host = u.Hostname()
	switch u.Scheme {
	case "smtp":
		s.port = 587
	case "smtps":
		s.port, s.implicit = 465, true
	default:
		return usage
	}
	if u.Port() != "" {
		if s.port, err = strconv.Atoi(u.Port()); err != nil || s.port < 1 || s.port > 65535 {
			return usage
		}
	}
	return nil
}

func (s *Sender) readFrom() error {
	from, err := netmail.ParseAddress(s.settings.From)
	if err != nil || mail.CheckAddress(from.Address) != nil || strings.ContainsAny(from.Name, "\r\n\x00") {
		return fmt.Errorf("from %q is no sender: write it as \"Acme <id@example.com>\"", s.settings.From)
	}
	s.from = from
	return nil
}

func (s *Sender) readCA() error {
	s.tls = &tls.Config{ServerName: s.host, MinVersion: tls.VersionTLS12}
	if s.settings.CA == "" {
		return nil
	}
	s.tls.RootCAs = x509.NewCertPool()
	if !s.tls.RootCAs.AppendCertsFromPEM([]byte(s.settings.CA)) {
		return errors.New("ca: there is no certificate in PEM in it")
	}
	return nil
}

// Address returns the mail server's host and port.
func (s *Sender) Address() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

// Send sends a message.
func (s *Sender) Send(ctx context.Context, m mail.Message) (answer string, err error) {
	message, err := s.message(m)
	if err != nil {
		return "", err
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, s.settings.Timeout)
	defer cancel()
	var opened net.Conn // the library leaves it open when the greeting, TLS or the authentication fails
	defer func() {
		if opened != nil {
			_ = opened.Close()
		}
	}()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := s.dial(ctx, network, address)
		if err == nil {
			opened = connection
		}
		return connection, err
	}
	client, err := gomail.NewClient(s.host, s.options(dial)...)
	if err != nil {
		return "", fmt.Errorf("preparing the connection: %w", err)
	}
	dialled, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return "", s.fault("the connection", m.To, err)
	}
	// The library knows only timeouts. Closing the connection ends what waits for the server.
	untimed := context.AfterFunc(ctx, func() { _ = opened.Close() })
	defer untimed()
	defer context.AfterFunc(whole, func() { _ = opened.Close() })()
	if err := dialled.UpdateDeadline(s.settings.Timeout); err != nil {
		return "", s.fault("the connection", m.To, err)
	}
	answer, err = s.submit(dialled, message, m.To, untimed)
	if err == nil {
		_ = dialled.Quit() // the server has the message
	}
	return answer, err
}

// dial connects, with TLS if it is there from the beginning.
func (s *Sender) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.implicit {
		return (&tls.Dialer{Config: s.tls}).DialContext(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (s *Sender) options(dial gomail.DialContextFunc) []gomail.Option {
	policy := gomail.TLSMandatory
	if s.implicit || s.settings.Insecure {
		policy = gomail.NoTLS // in the SMTP session
	}
	all := []gomail.Option{
		gomail.WithPort(s.port), gomail.WithTimeout(s.settings.Timeout), gomail.WithTLSPolicy(policy), gomail.WithTLSConfig(s.tls.Clone()),
		gomail.WithDialContextFunc(dial),
	}
	if s.settings.Hello != "" {
		all = append(all, gomail.WithHELO(s.settings.Hello))
	}
	if s.settings.User != "" {
		all = append(all, gomail.WithSMTPAuthCustom(&authentication{settings: &s.settings, host: s.host}))
	}
	return all
}

// submit sends a message in a session (RFC 5321 §3.3). untimed ends the timeout of the session.
func (s *Sender) submit(client *smtp.Client, message *gomail.Msg, to string, untimed func() bool) (string, error) {
	if err := client.Mail("<" + s.from.Address + ">"); err != nil {
		return "", s.fault("MAIL FROM", to, err)
	}
	if err := client.Rcpt("<" + to + ">"); err != nil {
		return "", s.fault("RCPT TO", to, err)
	}
	writer, err := client.Data()
	if err != nil {
		return "", s.fault("DATA", to, err)
	}
	if _, err := message.WriteTo(writer); err != nil { // the message stays incomplete: the server drops it when the connection closes
		return "", s.fault("the message", to, err)
	}
	untimed()
	if err := client.UpdateDeadline(s.settings.AcceptTimeout); err != nil {
		return "", s.fault("the message", to, err)
	}
	if err := writer.Close(); err != nil {
		if err = s.fault("the message", to, err); !errors.As(err, new(*mail.Refusal)) {
			err = &mail.Unanswered{Err: err}
		}
		return "", err
	}
	answer := ""
	if closed, is := writer.(*smtp.DataCloser); is {
		answer = closed.ServerResponse()
	}
	return answer, nil
}

// message returns the message in the library's form.
func (s *Sender) message(m mail.Message) (*gomail.Msg, error) {
	if err := mail.CheckAddress(m.To); err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(s.from.Address, "@")
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(s.from)
	message.ToMailAddress(&netmail.Address{Address: m.To})
	message.Subject(m.Subject)
	message.SetDateWithValue(m.Date)
	message.SetMessageIDWithValue(m.ID + "@" + domain)
	message.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834 §5
	message.SetBodyString(gomail.TypeTextPlain, m.Text)
	message.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	return message, nil
}

// authenticationNeeded is the reply code of a server that wants a sign-in first (RFC 4954 §6). It is about our settings, not the message.
const authenticationNeeded = 530

// fault words an error without the address of the recipient and without the password. A reply to RCPT TO or to the message from 500 on is permanent. Any other
// failure may be one of the settings, which the operator can mend.
func (s *Sender) fault(step, to string, err error) error {
	said := func(text string) string {
		text = strings.ReplaceAll(text, to, "(recipient)")
		for _, secret := range s.settings.credentials() {
			text = strings.ReplaceAll(text, secret, "(password)")
		}
		return strings.Join(strings.Fields(text), " ")
	}
	var reply *textproto.Error
	if !errors.As(err, &reply) {
		return fmt.Errorf("%s at %s: %s", step, s.Address(), said(err.Error()))
	}
	isAboutMessage := step == "RCPT TO" || step == "DATA" || step == "the message"
	return &mail.Refusal{
		Permanent: isAboutMessage && reply.Code >= 500 && reply.Code != authenticationNeeded,
		Step:      step, Code: reply.Code, Text: said(fmt.Sprintf("%d %s", reply.Code, reply.Msg)),
	}
}

// Interface guard.
var _ mail.Sender = (*Sender)(nil)
