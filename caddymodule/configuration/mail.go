package configuration

import (
	"fmt"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail/smtp"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Mail says how letters to people are sent.
type Mail struct {
	// URL is the mail server: smtp://host:587, which needs STARTTLS, or smtps://host:465.
	URL string `json:"url"`
	// From is the sender: an address, or a name and an address. Required.
	From string `json:"from,omitempty"`
	// User and Password authenticate to the server. Give the password as a placeholder to keep it out of the configuration. Default: mails
	// are sent without authentication.
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
	// CA is a file with the certificates of the server's authorities, in PEM. Default: those of the system count.
	CA string `json:"ca,omitempty"`
	// Insecure sends mails over smtp:// without TLS. Links in them can then be read on the way.
	Insecure bool `json:"insecure,omitempty"`
	// Timeout bounds an attempt to send a mail. Default: 30 seconds.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

// parseMail reads:
//
//	mail smtp://<host>:<port> | smtps://<host>:<port> {
//		from     <address> | "<name> <address>"
//		user     <user>
//		password <password> | {env.NAME} | {file./path}
//		ca       <file>
//		insecure
//		timeout  <duration>
//	}
func parseMail(d *caddyfile.Dispenser, configured **Mail, at *Sources) error {
	at.note(d, "mail")
	if err := setting.Once(d, "mail", *configured != nil); err != nil {
		return err
	}
	c := orNew(configured)
	if err := setting.TextOrPlaceholder(d, &c.URL); err != nil {
		return err
	}
	return options{
		"from": checkedText(&c.From, nil), "user": checkedText(&c.User, nil), "ca": checkedText(&c.CA, nil), "insecure": flag(&c.Insecure),
		"password": func(d *caddyfile.Dispenser) error {
			if err := setting.Text(d, &c.Password); err != nil {
				return err
			}
			return checkReference(d, "mail", "password", c.Password, 1)
		},
		"timeout": func(d *caddyfile.Dispenser) error { return parsePositive(d, &c.Timeout) },
	}.parse(d, "unknown mail option %q")
}

// read makes the sender.
func (c *Mail) read(s *Settings, at *Sources) error {
	if c == nil {
		return nil
	}
	err := c.readSender(s)
	if err != nil {
		err = fmt.Errorf("mail: %w", err)
	}
	return at.At(err, "mail")
}

func (c *Mail) readSender(s *Settings) error {
	values := smtp.Settings{Insecure: c.Insecure, Timeout: time.Duration(c.Timeout)}
	var password string
	for _, from := range []struct {
		name, configured string
		to               *string
		required         bool
	}{
		{"the URL", c.URL, &values.URL, true}, {"from", c.From, &values.From, true}, {"user", c.User, &values.User, false},
		{"password", c.Password, &password, false}, {"ca", fileReference(c.CA), &values.CA, false},
	} {
		if from.configured == "" && !from.required {
			continue
		}
		var err error
		if *from.to, err = setting.Resolve(from.name, from.configured); err != nil {
			return err
		}
	}
	values.Password = oauth.NewSecret(password)
	if issuer, err := url.Parse(s.Issuer.URL); err == nil {
		values.Hello = issuer.Hostname()
	}
	var err error
	s.Mail, err = smtp.New(values)
	return err
}

// warn warns of mail in the clear.
func (c *Mail) warn(logger *zap.Logger, at *Sources) {
	if c != nil && c.Insecure {
		logger.Warn(at.before("mail goes to its server in the clear: whoever reads it on the way can use the links in it to take over accounts: take insecure away", "mail"))
	}
}
