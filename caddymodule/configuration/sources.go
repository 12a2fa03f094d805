package configuration

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
)

// Sources are the positions of settings in a Caddyfile, as file:line, by the settings' names. They serve only error messages: what is
// wrong with a setting is sometimes known only when all blocks have been read or when the server starts.
type Sources map[string]string

// note records the position of a setting. The words are its name. The first position of a name counts.
func (s *Sources) note(d *caddyfile.Dispenser, words ...string) {
	name, source := strings.Join(words, " "), setting.Source(d)
	if _, noted := (*s)[name]; noted || source == "" {
		return
	}
	if *s == nil {
		*s = make(Sources)
	}
	(*s)[name] = source
}

// At adds the position of a setting to an error.
func (s *Sources) At(err error, words ...string) error {
	return setting.At(err, (*s)[strings.Join(words, " ")])
}

// before prefixes a warning with the position of a setting.
func (s *Sources) before(warning string, words ...string) string {
	if source := (*s)[strings.Join(words, " ")]; source != "" {
		return source + ": " + warning
	}
	return warning
}
