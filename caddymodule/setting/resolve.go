package setting

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// Resolve replaces {env.*}, {file.*} and the like in a setting. It fails if the result is empty, and for a placeholder of
// the request, because then a client could choose the value.
func Resolve(name, text string) (string, error) {
	if text == "" {
		return "", fmt.Errorf("%s is missing", name)
	}
	if strings.Contains(text, "{http.") {
		return "", fmt.Errorf("%s: %s comes from the request: use {env.NAME} or {file./path}", name, text)
	}
	value, err := caddy.NewReplacer().ReplaceOrErr(text, true, true)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if value == "" {
		return "", fmt.Errorf("%s: %s gives nothing", name, text)
	}
	return value, nil
}

// ResolveAll resolves each of several settings.
func ResolveAll(what string, configured []string) ([]string, error) {
	var values []string
	for _, text := range configured {
		value, err := Resolve(what, text)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}
