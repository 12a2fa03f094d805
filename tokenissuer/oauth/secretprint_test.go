package oauth_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestSecretsDoNotPrint tries every way that a value gets into a text. A verb that fmt handles itself, or a field that
// fmt may not call methods on, must not get past it.
func TestSecretsDoNotPrint(t *testing.T) {
	const hidden = "hunter2-hunter2"
	leaks := func(text string) bool {
		for _, form := range []string{"hunter", hex.EncodeToString([]byte("hunter")), "aHVudGVy", "104 117 110"} { // text, hex, base64, bytes
			if strings.Contains(strings.ToLower(text), strings.ToLower(form)) {
				return true
			}
		}
		return false
	}
	secret := oauth.NewSecret(hidden)
	type exported struct{ S oauth.Secret }
	type unexported struct {
		name string
		s    oauth.Secret
	}
	auth := clients.Authentication{Readings: []clients.Credential{{ID: "a", Secret: secret}}, Address: "192.0.2.1"}
	values := []any{
		secret, &secret, exported{secret}, &exported{secret}, unexported{"x", secret}, &unexported{"x", secret},
		[]oauth.Secret{secret}, map[string]oauth.Secret{"a": secret}, [1]unexported{{"x", secret}}, []any{secret}, clients.Credential{ID: "a", Secret: secret},
		auth, grants.Request{Client: auth}, issuer.Tokens{AccessToken: secret, RefreshToken: secret},
	}
	for _, v := range values {
		for _, verb := range "bcdeEfFgGoOpqstTUvwxX" {
			for _, flags := range []string{"", "+", "#", " ", "0", "-", "20", ".3", "+#20.5"} {
				format := "%" + flags + string(verb)
				if got := fmt.Sprintf(format, v); leaks(got) {
					t.Errorf("%T under %s: %s", v, format, got)
				}
			}
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
		v1, err1 := json.Marshal(v)
		v2, err2 := jsonv2.Marshal(v)
		for name, got := range map[string]string{
			"Sprint": fmt.Sprint(v), "Sprintln": fmt.Sprintln(v), "Errorf": fmt.Errorf("%v", v).Error(), "slog": log.String(),
			"encoding/json": fmt.Sprint(string(v1), err1), "json v2": fmt.Sprint(string(v2), err2),
		} {
			if leaks(got) {
				t.Errorf("%T through %s: %s", v, name, got)
			}
		}
	}
	for _, verb := range []string{"%v", "%s", "%q", "%x", "%d", "%+v", "%#v"} {
		if got := fmt.Sprintf(verb, secret); got != "[secret]" {
			t.Errorf("%s gives %s", verb, got)
		}
	}
	if text, err := json.Marshal(secret); err != nil || string(text) != `"[secret]"` {
		t.Errorf("%s, %v", text, err)
	}
	if secret.Reveal() != hidden || secret.IsEmpty() || !oauth.NewSecret("").IsEmpty() || !(oauth.Secret{}).IsEmpty() || (oauth.Secret{}).Reveal() != "" || oauth.NewSecret("").Digest() != (oauth.Secret{}).Digest() {
		t.Error("a secret does not hold what it was given")
	}
}
