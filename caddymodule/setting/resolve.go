package setting

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// Resolve replaces {env.*}, {file.*} and other global placeholders in a setting. It returns an error if the result is empty, and for a
// placeholder of the request, whose value a client could choose.
func Resolve(name, text string) (string, error) {
	if text == "" {
		return "", fmt.Errorf("%s is missing", name)
	}
	if strings.Contains(text, "{http.") {
		return "", fmt.Errorf("%s: %s comes from the request: use {env.NAME} or {file./path}", name, text)
	}
	if err := checkFiles(text); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
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

// FileError names a file of a placeholder that cannot be read, or is empty. It quotes no content.
type FileError struct{ error }

var filePlaceholder = regexp.MustCompile(`\{file\.([^{}]+)\}`)

// checkFiles returns a FileError for a file that Caddy would replace by nothing.
func checkFiles(text string) error {
	for _, placeholder := range filePlaceholder.FindAllStringSubmatch(text, -1) {
		content, err := os.ReadFile(placeholder[1])
		if err != nil {
			return FileError{fmt.Errorf("%s: %w", placeholder[0], err)}
		}
		if strings.Trim(string(content), "\r\n") == "" {
			return FileError{fmt.Errorf("%s: the file is empty", placeholder[0])}
		}
	}
	return nil
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
