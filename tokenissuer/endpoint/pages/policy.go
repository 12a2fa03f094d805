package pages

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// policy returns the Content-Security-Policy (CSP Level 3) without form targets. It allows no scripts, no loading and no framing, only
// embedded images and the style sheet with this digest.
func policy(style []byte) string {
	return strings.Join([]string{
		"default-src 'none'",
		"style-src " + digestSource(style),
		"img-src data:",
		"base-uri 'none'",
		"frame-ancestors 'none'",
		"form-action 'self'",
	}, "; ")
}

// digestSource returns the source expression for exactly this content.
func digestSource(content []byte) string {
	digest := sha256.Sum256(content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'"
}

// scripted is a page that may have a script. Script returns "" if it has none.
type scripted interface{ Script() template.JS }

func scriptOf(page Page) template.JS {
	if s, ok := page.(scripted); ok {
		return s.Script()
	}
	return ""
}

// PolicyOf is like ContentSecurityPolicy for a page of this package. It allows the page's script, and no other.
func (p *Pages) PolicyOf(page Page, formTargets ...string) string {
	value := p.ContentSecurityPolicy(formTargets...)
	if _, is := page.(Console); is {
		value = p.console.policy
	}
	if script := scriptOf(page); script != "" {
		value += "; script-src " + digestSource([]byte(script))
	}
	return value
}

// ContentSecurityPolicy returns the value of that header. Browsers apply form-action to a form's action and to every redirect that follows.
// So a page whose form ends at an application needs the application's origin, such as https://app.example.com, or its private-use scheme,
// such as com.example.app:, as a target. Other targets are ignored. An application may redirect further, from its callback to another host,
// so the policy allows the origin's whole scheme too.
func (p *Pages) ContentSecurityPolicy(formTargets ...string) string {
	value := p.policy
	for _, target := range formTargets {
		if source := formSource(target); source != "" {
			value += " " + source
		}
	}
	return value
}

var (
	privateScheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]{0,254}:$`)
	namedHost     = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?(:[0-9]{1,5})?$`)
)

// notPrivate lists schemes that do not identify an application, or whose content is executed.
var notPrivate = []string{
	"http:", "https:", "ws:", "wss:", "javascript:", "data:", "blob:", "filesystem:", "file:", "about:", "vbscript:",
}

// formSource returns a target as a source expression, or "" if it is invalid. It uses only validated parts, so that nothing else gets into
// the header.
func formSource(target string) string {
	target = strings.ToLower(target)
	if privateScheme.MatchString(target) && !slices.Contains(notPrivate, target) {
		return target
	}
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || target != u.Scheme+"://"+u.Host {
		return ""
	}
	if strings.HasPrefix(u.Host, "[") {
		return u.Scheme + ":" // a source expression cannot name an IPv6 address; browsers ignore one that does
	}
	if !namedHost.MatchString(u.Host) {
		return ""
	}
	return target + " " + u.Scheme + ":"
}
