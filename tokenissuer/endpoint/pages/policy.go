package pages

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// policy returns the Content-Security-Policy (CSP Level 3) up to the targets of forms: nothing is loaded and nothing
// runs, the one style sheet is known by its digest, images are those that the page brings along, nobody may frame it.
func policy(style []byte) string {
	digest := sha256.Sum256(style)
	return strings.Join([]string{
		"default-src 'none'",
		"style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'",
		"img-src data:",
		"base-uri 'none'",
		"frame-ancestors 'none'",
		"form-action 'self'",
	}, "; ")
}

// ContentSecurityPolicy returns the value of the header of that name. Browsers hold not only a form's action against
// form-action but every redirect that follows, so a page whose form ends at an application needs the application's
// origin, such as https://app.example.com, or its private scheme, such as com.example.app:, as a target. Whatever is
// neither is left out. An application may send the browser on, from its callback to where its pages are, and that is
// held against the policy as well: beside an origin stands every other one of its scheme.
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

// notPrivate are schemes that say nothing about where a form goes, or that run what they carry.
var notPrivate = []string{
	"http:", "https:", "ws:", "wss:", "javascript:", "data:", "blob:", "filesystem:", "file:", "about:", "vbscript:",
}

// formSource returns a target as a source expression of the policy, or "" for what is no target. It is put together
// from what was recognised, so that nothing else gets into the header.
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
		return u.Scheme + ":" // alone: a source expression cannot name an IPv6 address, and a browser skips one that does
	}
	if !namedHost.MatchString(u.Host) {
		return ""
	}
	return target + " " + u.Scheme + ":"
}
