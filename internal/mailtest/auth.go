package mailtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5" //lint:ignore gosec CRAM-MD5 is made of it
	"crypto/pbkdf2"
	"crypto/sha1" //lint:ignore gosec SCRAM-SHA-1 is made of it
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// AuthMechanisms lists the mechanisms of the options.
func (s *session) AuthMechanisms() []string {
	if mechanisms := s.server.options.Mechanisms; mechanisms != nil {
		return mechanisms
	}
	return []string{sasl.Plain}
}

// Auth begins an authentication. Each mechanism is written after its RFC, and not with the code of the client.
func (s *session) Auth(mechanism string) (sasl.Server, error) {
	in := ""
	if !s.isTLS {
		in = " in the clear"
	}
	finish := func(user string, isRight bool) error {
		_ = s.server.step("AUTH", user+in)
		if !isRight {
			if s.server.Repeats != "" {
				return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "you sent " + s.server.Repeats}
			}
			return smtp.ErrAuthFailed
		}
		s.isKnown, s.mechanism = true, mechanism
		return nil
	}
	compare := func(user, password string) error { return finish(user, user == User && password == Password) }
	switch mechanism {
	case sasl.Plain:
		return sasl.NewPlainServer(func(_, user, password string) error { return compare(user, password) }), nil
	case sasl.Login:
		return conversation(func(answers []string) (string, bool, error) {
			switch len(answers) {
			case 0:
				return "Username:", false, nil
			case 1:
				return "Password:", false, nil
			}
			return "", true, compare(answers[0], answers[1])
		}), nil
	case "CRAM-MD5": // RFC 2195
		const challenge = "<1896.697170952@mail.example>"
		return conversation(func(answers []string) (string, bool, error) {
			if len(answers) == 0 {
				return challenge, false, nil
			}
			user, digest, _ := strings.Cut(answers[0], " ")
			return "", true, finish(user, user == User && digest == fmt.Sprintf("%x", mac(md5.New, []byte(Password), challenge)))
		}), nil
	case "SCRAM-SHA-1":
		return conversation(scram(sha1.New, finish)), nil
	case "SCRAM-SHA-256":
		return conversation(scram(sha256.New, finish)), nil
	}
	return nil, smtp.ErrAuthUnknownMechanism
}

// conversation returns a server of a mechanism. next gets all answers of the client.
func conversation(next func(answers []string) (challenge string, done bool, err error)) sasl.Server {
	return &talk{next: next}
}

type talk struct {
	answers []string
	next    func([]string) (string, bool, error)
}

func (t *talk) Next(response []byte) ([]byte, bool, error) {
	if response != nil {
		t.answers = append(t.answers, string(response))
	}
	challenge, done, err := t.next(t.answers)
	return []byte(challenge), done, err
}

func mac(h func() hash.Hash, key []byte, text string) []byte {
	m := hmac.New(h, key)
	_, _ = m.Write([]byte(text))
	return m.Sum(nil)
}

// scram returns the server's side of RFC 5802 §3 without channel binding.
func scram(h func() hash.Hash, finish func(user string, isRight bool) error) func([]string) (string, bool, error) {
	const salt, rounds = "0123456789abcdef", 4096
	encode := base64.StdEncoding.EncodeToString
	salted, _ := pbkdf2.Key(h, Password, []byte(salt), rounds, h().Size())
	stored := h()
	clientKey := mac(h, salted, "Client Key")
	_, _ = stored.Write(clientKey)
	return func(answers []string) (string, bool, error) {
		if len(answers) == 0 {
			return "", false, nil
		}
		first := strings.TrimPrefix(answers[0], "n,,")
		user, nonce, _ := strings.Cut(strings.TrimPrefix(first, "n="), ",r=")
		challenge := "r=" + nonce + "server,s=" + encode([]byte(salt)) + fmt.Sprintf(",i=%d", rounds)
		if len(answers) == 1 {
			return challenge, false, nil
		}
		bare, proof, _ := strings.Cut(answers[1], ",p=")
		signed := first + "," + challenge + "," + bare
		want := mac(h, stored.Sum(nil), signed)
		for i := range want {
			want[i] ^= clientKey[i]
		}
		got, err := base64.StdEncoding.DecodeString(proof)
		isRight := err == nil && user == User && bare == "c=biws,r="+nonce+"server" && bytes.Equal(got, want)
		if !isRight || len(answers) == 3 {
			return "", true, finish(user, isRight)
		}
		return "v=" + encode(mac(h, mac(h, salted, "Server Key"), signed)), false, nil
	}
}
