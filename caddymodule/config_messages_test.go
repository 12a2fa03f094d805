package caddymodule

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestUnknownOptionsListTheKnownOnes checks that the error for an unknown option lists the known ones in every block. Other errors must not
// list them.
func TestUnknownOptionsListTheKnownOnes(t *testing.T) {
	for block, known := range map[string]string{
		"":        "accept, audience, ",
		"tokens":  "admin_created, ",
		"sign_in": "github, ldap, password or provider",
		"sign_in {\nprovider corp https://l.example":           "allow, ",
		"sign_in {\ngithub gh":                                 "allow, ",
		"sign_in {\nldap corp ldaps://l.example":               "allow, ",
		"sign_in {\nldap corp ldaps://l.example {\nattributes": "email, groups, name, subject or username",
		"client a s":                      "backchannel_logout_session_required, ",
		"client a s {\nmay_exchange b":    "",
		"limits":                          "",
		"openid":                          "",
		"personal_tokens":                 "groups, lifetime, operators_only, roles or scopes",
		"registration":                    "",
		"client_metadata":                 "",
		"trust corp https://l.example":    "",
		"accept corp":                     "",
		"store sqlite":                    "migrate",
		"store postgres postgres://u@h/d": "migrate or pool",
		"keys":                            "algorithm, encrypt_with or rotate",
		"user u":                          "address, email, ",
		"revocation":                      "max_staleness",
		"trust c https://l.example {\naudience a\nintrospection https://l.example/i": "",
	} {
		lines := strings.Split("nonsense", "\n")
		depth := 0
		if block != "" {
			lines = append([]string{block + " {"}, lines...)
			depth = strings.Count(block, "{") + 1
		}
		text := "{\noauth {\nissuer https://a.example\n" + strings.Join(lines, "\n") + strings.Repeat("\n}", depth) + "\n}\n}\n"
		_, err := adapt(text)
		if err == nil || !strings.Contains(err.Error(), `"nonsense": use `+known) || !regexp.MustCompile(`use [a-z_]+(, [a-z_]+)*( or [a-z_]+)?, at Caddyfile:\d+$`).MatchString(err.Error()) {
			t.Errorf("%q: %v", block, err)
		}
	}
}

// TestAMissingFileIsNamed checks that the error for a missing file names the file and the line wherever a setting refers to one. The error
// never contains a secret of the same setting.
func TestAMissingFileIsNamed(t *testing.T) {
	directory := t.TempDir()
	empty, missing, unreadable := filepath.Join(directory, "empty"), filepath.Join(directory, "missing"), directory
	check(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, line := range []string{
		"client ci {file.PATH} {\nscopes public\n}",
		"user u {\nemail a@b.example\npassword {file.PATH}\n}",
		"keys {\nencrypt_with {file.PATH}\n}",
		"store postgres {file.PATH}",
		`store postgres "host=h user=x password={file.PATH} application_name=hunter2 dbname=d"`,
		"sign_in {\nprovider corp https://login.example {\nclient gw {file.PATH}\n}\n}",
		"trust corp https://l.example {\naudience a\nintrospection https://l.example/i {\nclient gw {file.PATH}\n}\n}",
		"audience {file.PATH}",
	} {
		for path, why := range map[string]string{missing: "no such file or directory", empty: "the file is empty", unreadable: "is a directory"} {
			err := validate(t, "{\noauth {\nissuer https://a.example\n"+strings.ReplaceAll(line, "PATH", path)+"\n}\n}\nhttps://a.example {\noauth_server\n}\n")
			if err == nil || !strings.Contains(err.Error(), "{file."+path+"}: ") || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s, %s: %v", line, why, err)
			}
		}
	}
}
